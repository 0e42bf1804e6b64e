"""What the service and a worker say to each other over a socket: a question, and one answer to it.

A question is a head of fixed length, a picture rule as JSON and the picture, which lies in memory that both
share where it has room there: sent in pieces, each would wait for its turn on a core. An answer is a head and
a short JSON, which is read strictly: a worker may have been taken over by what it decoded. Pixels are not in
it; they are in the shared memory.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from registry.bundle.frozen import Frozen

SHARED: Final = 3 * 2048 * 2048
"""Bytes of the shared memory: the largest picture that a picture rule may ask for."""

LONGEST_ANSWER: Final = 65536

_QUESTION: Final = struct.Struct("<IQ")
_LENGTH: Final = struct.Struct("<I")

Read = Callable[[int], bytes]
"""Reads exactly so many bytes."""


RefusedAs = Literal[
    "NotAPicture",
    "UnsupportedPicture",
    "PictureTooLarge",
    "DamagedPicture",
    "TruncatedPicture",
    "MemoryError",
]
"""Why a picture is not decoded: the name of a `PictureError`, or that there is not enough memory."""


LONGEST: Final = 1000
"""Characters of a sentence from a worker."""

Sentence = Annotated[str, Field(max_length=LONGEST)]


class WireError(Exception):
    """What came is no answer."""


class Pixels(Frozen):
    """The picture is decoded, and lies in the shared memory.

    Attributes:
        width: of the picture as it was sent, in pixels.
        height: likewise.
        unused_profile: why its colour profile was not applied; None where it has none, or it was.
        on_its_side: whether it is looked at with its sides exchanged.
    """

    model_config = ConfigDict(strict=True)

    answer: Literal["pixels"] = "pixels"
    width: int = Field(ge=1, le=2**31)
    height: int = Field(ge=1, le=2**31)
    unused_profile: Sentence | None = None
    on_its_side: bool = False


class Refused(Frozen):
    """The picture cannot be decoded.

    Attributes:
        error: the name of a `PictureError`; `MemoryError` where there was not enough.
        said: what is wrong with it.
    """

    model_config = ConfigDict(strict=True)

    answer: Literal["refused"] = "refused"
    error: RefusedAs
    said: Sentence


Answer = Pixels | Refused
_ANSWER: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="answer")])


@dataclass(frozen=True)
class Question:
    """A picture to be decoded, as a worker reads it.

    Attributes:
        rule: the picture rule, as JSON.
        content: the picture.
    """

    rule: bytes
    content: bytes


def question_parts(question: Question, shared: NDArray[np.uint8]) -> list[bytes]:
    """A question's bytes, to be sent one part after the other, but for what is put into the shared memory."""
    rule, content = question.rule, question.content
    head = _QUESTION.pack(len(rule), len(content)) + rule
    if len(content) > len(shared):
        return [head, content]
    shared[: len(content)] = np.frombuffer(content, np.uint8)
    return [head]


def read_question(read: Read, shared: NDArray[np.uint8]) -> Question:
    """Reads a question; only the service writes them."""
    rule, length = _QUESTION.unpack(read(_QUESTION.size))
    told = read(rule)
    content = read(length) if length > len(shared) else shared[:length].tobytes()
    return Question(told, content)


def answer_bytes(answer: Answer) -> bytes:
    """An answer's bytes."""
    text = answer.model_dump_json().encode()
    return _LENGTH.pack(len(text)) + text


def read_answer(read: Read) -> Answer:
    """Reads an answer, whoever wrote it.

    Raises:
        WireError: it is none.
    """
    (length,) = _LENGTH.unpack(read(_LENGTH.size))
    if length > LONGEST_ANSWER:
        raise WireError(f"an answer of {length:,} bytes")
    try:
        return _ANSWER.validate_json(read(length))
    except ValidationError as error:
        raise WireError("an answer that is none") from error
