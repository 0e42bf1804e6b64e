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

from typing import ClassVar


class TrainingError(Exception):
    """Base of all errors that a user of the training room may see; its text is for them.

    Attributes:
        owners_alone: whether its text may name files, and is for whoever owns the data and for nobody else.
    """

    owners_alone: ClassVar[bool] = False


class JobError(TrainingError):
    """The job file asks for something that does not exist or does not fit."""


class DataError(TrainingError):
    """A client's data cannot be used as the job asks."""


class MessageError(TrainingError):
    """An update does not match what was asked for."""


class QuorumError(TrainingError):
    """Fewer clients answered a round than the job demands."""


class CheckpointError(TrainingError):
    """A checkpoint cannot be written, cannot be read, or belongs to another job."""


class ExportError(TrainingError):
    """The exported graph does not compute what torch computes."""


class EngineError(TrainingError):
    """The engine itself failed, not a client."""


LONGEST = 300  # characters of an error that is not ours

MORE = "its own log says more"


def public_message(error: Exception) -> str:
    """An error as it may leave its site.

    Our own errors leave as they are, save those about a hospital's files, which are its owner's alone. Of
    others leaves what the machine says of itself: that it has no memory, what its driver lacks.
    """
    kind = type(error).__name__
    if isinstance(error, TrainingError):
        return f"{kind}; {MORE}" if error.owners_alone else f"{error}"
    if isinstance(error, OSError):
        return f"{kind}: {error.strerror or 'no reason given'}; {MORE}"
    if isinstance(error, MemoryError | RuntimeError):
        line = f"{error}".strip().partition("\n")[0]
        if "/" not in line and "\\" not in line:
            return f"{kind}: {line[:LONGEST]}".rstrip(": ")
    return f"{kind}; {MORE}"
