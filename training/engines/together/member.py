"""One of the processes that train a client together: it answers questions until nobody asks any more."""

import hashlib
import pickle
import signal
import warnings
from collections.abc import MutableSequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import torch

from training.algorithms.share import ALONE, Share
from training.engines.end_with_parent import end_with_parent
from training.engines.parts_file import PartsFile
from training.engines.together.inherited_group import LostError, Sockets
from training.engines.together.meeting import meet
from training.errors import TrainingError
from training.jobs.client_app import ClientApp
from training.jobs.job import Job
from training.messages.message import Broadcast, Tensors, Update
from training.messages.spool import Spool
from training.messages.tensor_digest import value_bytes
from training.messages.tensor_file import map_tensors
from training.progress import Watch, unwatched


class Parts(Protocol):
    """What a client app is built from; small enough to send to a process."""

    @property
    def job(self) -> Job:
        """The job."""

    def build(self, watch: Watch = unwatched, share: Share = ALONE) -> ClientApp:
        """The client app."""


@dataclass(frozen=True)
class Membership:
    """What a member is started with.

    Attributes:
        share: which one it is.
        parts: what its client app is built from.
        folder: where all meet, and the first puts its answers.
        sockets: to the others.
        silence: seconds after which one that is waited for is taken to be gone.
        gpu_memory: the share of a GPU's memory that it may take; None for all.
    """

    share: Share
    parts: PartsFile
    folder: Path
    sockets: Sockets
    silence: float
    gpu_memory: float | None = None


@dataclass(frozen=True)
class Question:
    """A training.

    Attributes:
        broadcast: the question, without its tensors.
        tensors: the file of those.
        steps: after so many batches the training ends.
    """

    broadcast: Broadcast
    tensors: Path
    steps: int | None


@dataclass(frozen=True)
class Trained:
    """What a member reports of a training.

    Attributes:
        digest: of the tensors of its answer, which are the same at all of them.
        update: the answer without them; None but from the first member.
        tensors: the file of those.
    """

    digest: str
    update: Update | None = None
    tensors: Path | None = None


@dataclass(frozen=True)
class Failed:
    """That a member could not train.

    Attributes:
        error: what the one in whose place it trained is to raise, if it is an error of ours.
        text: what it was.
        lost: whether it lost another one, and what happened to that is the reason.
    """

    error: TrainingError | None
    text: str
    lost: bool = False


def run_member(membership: Membership, pipe: Connection, done: MutableSequence[float]) -> None:
    """Meet the others and answer; any error is reported, and ends this process.

    Args:
        membership: who it is.
        pipe: to the one that asks.
        done: how much of the training is done is put there, by the first member.
    """
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks decides when it ends
    warnings.filterwarnings("ignore", message="find_unused_parameters=True was specified")
    try:
        answer_questions(membership, pipe, done)
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the one that asked is told
        lost = isinstance(error, LostError | torch.distributed.DistError)
        text = f"{error}" if isinstance(error, LostError) else f"{type(error).__name__}: {error}"
        pipe.send(Failed(portable(error), text, lost))


def answer_questions(membership: Membership, pipe: Connection, done: MutableSequence[float]) -> None:
    """Answer one question after another.

    Raises:
        EOFError: nobody asks any more.
    """
    share, parts = membership.share, membership.parts.load()
    file = membership.folder / "meeting"
    meet(share, parts.job.engine.device, file, membership.sockets, membership.silence)
    if membership.gpu_memory is not None and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(membership.gpu_memory)

    def watch(part: float) -> None:
        if share.rank == 0:
            done[0] = part

    app: ClientApp = parts.build(watch, share)
    spool = Spool(membership.folder / f"answers-{share.rank}")
    while True:
        question: Question = pipe.recv()
        asked = replace(question.broadcast, tensors=map_tensors(question.tensors))
        update = app.fit(asked, question.steps)
        digest, bare = digest_of(update.tensors), replace(update, tensors={})
        spool.clear()
        first = share.rank == 0
        pipe.send(Trained(digest, bare, spool.write(update.tensors)) if first else Trained(digest))


def digest_of(tensors: Tensors) -> str:
    """SHA-256 of the names and bytes of tensors."""
    found = hashlib.sha256()
    for name, tensor in tensors.items():
        found.update(name.encode())
        found.update(value_bytes(tensor))
    return found.hexdigest()


def portable(error: Exception) -> TrainingError | None:
    """An error of ours as it goes to another process; None where it is another's, or cannot go there."""
    if not isinstance(error, TrainingError):
        return None
    try:
        found = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - what an error of a plug-in needs to be made again is not known
        return None
    return found if isinstance(found, TrainingError) else None
