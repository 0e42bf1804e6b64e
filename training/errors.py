"""The errors of training, as one tree.

TrainingError
├── JobError            the job file asks for something that does not exist or does not fit
├── DataError           a client's data cannot be used as the job asks
├── MessageError        an update does not match what was asked (names, shapes, finite values)
├── QuorumError         fewer clients answered than the job demands
├── CheckpointError     a checkpoint cannot be written, read, or belongs to another job
├── EngineError         the engine itself failed, not a client
└── ExportError         the exported graph does not compute what torch computes
"""

import errno
import os
import re
from typing import ClassVar, TypeVar

from safetensors import SafetensorError


class TrainingError(Exception):
    """Base of all errors that a user of the training package may see; its text is for a local user.

    Attributes:
        code: identifies its kind to another site, see `public_message`.
        public: whether its text is made of nothing but what the other site sent or already knows; see
            `public`.
    """

    code: ClassVar[str] = "refused"
    public: bool = False


class JobError(TrainingError):
    """The job file asks for something that does not exist or does not fit."""

    code: ClassVar[str] = "job"


class DataError(TrainingError):
    """A client's data cannot be used as the job asks."""

    code: ClassVar[str] = "data"


class MessageError(TrainingError):
    """An update does not match what was asked for."""

    code: ClassVar[str] = "message"


class QuorumError(TrainingError):
    """Fewer clients answered a round than the job demands."""

    code: ClassVar[str] = "quorum"


class CheckpointError(TrainingError):
    """A checkpoint cannot be written, cannot be read, or belongs to another job."""

    code: ClassVar[str] = "disk"


class ExportError(TrainingError):
    """The exported graph does not compute what torch computes."""

    code: ClassVar[str] = "export"


class EngineError(TrainingError):
    """The engine itself failed, not a client."""

    code: ClassVar[str] = "engine"


Public = TypeVar("Public", bound=TrainingError)

LONGEST = 500  # characters of an error that is told as it is

MORE = "its own log says more"

UNFORESEEN = "internal"

SENTENCES = {
    "refused": "it does not do what it was asked",
    "job": "the job does not fit what is there",
    "data": "its data cannot be used as the job asks",
    "manifest": "its manifest cannot be read",
    "columns": "its manifest lacks a column that the job names",
    "adapter": "its pictures cannot be read as its manifest says",
    "labels": "its labels do not fit the job's label map",
    "subgroups": "its subgroups do not fit the job's",
    "split": "its splits do not keep patients apart",
    "clients": "its pictures cannot be divided as the job asks",
    "pictures": "some of its pictures cannot be decoded",
    "library": "something that the job needs is not installed there",
    "message": "what it was sent, or what it would answer, is not as it must be",
    "quorum": "too few clients answered",
    "disk": "a file could not be written or read there",
    "memory": "its memory is too small for this",
    "gpu": "its graphics card or its driver cannot compute this",
    "processes": "one of the worker processes there ended or failed",
    "export": "the exported model does not compute there what it should",
    "engine": "it could not work",
    "kit": "its kit is not as it must be",
    "policy": "its own policy does not allow this",
    "hours": "its own policy allows no work at this hour",
    "limits": "its own policy leaves no room for this",
    "journal": "it sends nothing that it cannot enter in its journal",
    UNFORESEEN: "an internal error",
}
"""What is told of an error to another site, by its code."""


PASSING = ("hours", "limits", "journal")
FULL = ("ENOSPC", "EDQUOT")
OS_ERROR = re.compile(r"\(os error (\d+)\)")


def may_pass(message: str) -> bool:
    """Whether an error that another site reported by `public_message` may resolve without intervention.

    Examples are a full disk, and what the hospital's policy allows at another hour or with more disk space.
    """
    full = [f"disk: {SENTENCES['disk']} ({name}: " for name in FULL]
    return any(each in message for each in [*full, *(f"{code}: {SENTENCES[code]}" for code in PASSING)])


def is_of_a_full_disk(error: BaseException) -> bool:
    """Whether what was behind an error is that there is no room on the disk, or in a user's share of it."""
    return errno_of(error) in FULL


def public(error: Public) -> Public:
    """Let an error's text leave its site as it is.

    For texts of what the other site sent or already knows, such as versions, digests and the fields of a
    request; never for one that quotes a file, a table, a setting of the site, or another error.
    """
    error.public = True
    return error


def public_message(error: BaseException) -> str:
    """An error as it may leave its site: a code and a sentence from `SENTENCES`, and nothing of its own text.

    The one exception are texts that the code raising them marked by `public`.
    """
    if isinstance(error, TrainingError) and error.public:
        return f"{error}"[:LONGEST]
    code = code_of(error)
    number = errno_of(error)
    which = f" ({number}: {os.strerror(getattr(errno, number))})" if number else ""
    return f"{code}: {SENTENCES[code]}{which}; {MORE}"


def code_of(error: BaseException) -> str:
    """The code of an error's kind; a full disk is one whatever could not be written, but for the journal."""
    if is_of_a_full_disk(error) and getattr(error, "code", "") not in PASSING:
        return "disk"
    if isinstance(error, TrainingError):
        return error.code if error.code in SENTENCES else UNFORESEEN
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "out of memory" in f"{error}"):
        return "memory"
    if isinstance(error, RuntimeError) and f"{error}".startswith("CUDA error"):
        return "gpu"
    return "disk" if isinstance(error, OSError) else UNFORESEEN


def errno_of(error: BaseException) -> str | None:
    """The name of the operating system's number for what was behind an error, e.g. `ENOSPC`.

    Errors of safetensors have the number in their text alone.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and isinstance(seen.errno, int):
            return errno.errorcode.get(seen.errno)
        if isinstance(seen, SafetensorError) and (number := OS_ERROR.search(f"{seen}")):
            return errno.errorcode.get(int(number[1]))
        seen = seen.__cause__
    return None
