"""All clients on one machine, in this process or in a few worker processes.

With one worker the clients run here, one after another. With more, each worker is a process with a model of
its own; weights go out and come back through files, and an answer's is read as it comes, while others still
train. Either way every client computes the same, because its draws depend on what it is and not on where it
runs, and every worker uses the same number of threads.
"""

import ctypes
import mmap
import os
import pickle
import sys
import threading
from collections.abc import MutableSequence, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import torch
from rich.console import Console

from training.algorithms.client import ReleaseStore, StateStore
from training.data.dataset import Dataset
from training.errors import CheckpointError, EngineError
from training.jobs.client_app import ClientApp
from training.jobs.job import Job
from training.messages import Answer, Broadcast, Tensors, Update
from training.progress import Progress, Question, Watch, unwatched
from training.rounds.requests import IN_WORDS
from training.tensor_file import MEMORY_FOR_UPDATES, Spool, map_tensors

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT = 1 << 30  # bytes


def keep_freed_memory() -> bool:
    """Ask glibc to keep up to 1 GiB of freed memory; returns whether it agreed.

    Each batch allocates and frees the same large buffers. By default glibc returns them to the kernel and
    gets them back as fresh pages, which the kernel must clear: a tenth to a third of the time of a small
    model on a CPU. It changes no result. Other systems and C libraries are left alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return (
        mallopt is not None
        and bool(mallopt(M_MMAP_THRESHOLD, KEPT))
        and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
    )


class PartsFile:
    """Something pickled, which worker processes inherit as an open file.

    It goes to a process only among the arguments that it is started with. The file has no name: no other
    user reads or changes it, and none is left where the coordinator is killed. In a pipe, what is too long
    for it would let a worker start only when the one before has.

    Args:
        parts: what to pickle.
        folder: on whose disk.

    Raises:
        CheckpointError: when the disk does not take it.
    """

    def __init__(self, parts: object, folder: Path) -> None:
        try:
            self._file = written(parts, folder)
        except OSError as error:
            raise CheckpointError(
                f"cannot spool what the workers start from to {folder}: {error}; "
                "free some disk space and continue with --resume"
            ) from error

    def load(self) -> Any:
        """A copy of what was pickled."""
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return pickle.loads(content)

    def close(self) -> None:
        """Let go of the file; it is gone when every process has."""
        self._file.close()

    def __getstate__(self) -> Any:
        return DupFd(self._file.fileno())

    def __setstate__(self, inherited: Any) -> None:
        self._file = os.fdopen(inherited.detach(), "rb")


def written(parts: object, folder: Path) -> IO[bytes]:
    """An open file without a name that holds what was pickled; closed where the disk does not take it."""
    file = TemporaryFile(dir=folder)  # noqa: SIM115 - whoever asks closes it
    try:
        pickle.dump(parts, file)
        file.flush()
    except BaseException:
        with suppress(OSError):  # what waits in its buffer cannot be written either
            file.close()
        raise
    return file


@dataclass(frozen=True)
class ClientAppParts:
    """What a `ClientApp` is built from; small enough to send to a worker process."""

    job: Job
    dataset: Dataset
    store: StateStore
    releases: ReleaseStore | None = None

    def build(self, watch: Watch = unwatched) -> ClientApp:
        """The client app, at the number of threads that the job gives each client.

        Args:
            watch: receives the progress of a long request.
        """
        keep_freed_memory()
        torch.set_num_threads(self.job.engine.threads_per_client)
        return ClientApp(
            self.job,
            self.dataset,
            self.store,
            releases=self.releases,
            watch=watch,
        )


class InProcessEngine:
    """Runs clients on this machine.

    Args:
        parts: the job and its data.
        spool: an empty folder for updates that wait.
        memory: bytes of updates that may wait in memory.
        progress: shows how many clients have answered; None shows nothing.
    """

    def __init__(
        self,
        parts: ClientAppParts,
        spool: Path,
        memory: int = MEMORY_FOR_UPDATES,
        progress: Progress | None = None,
    ) -> None:
        self._progress = progress or Progress(Console(quiet=True))
        self._spool = Spool(spool, memory)
        workers = parts.job.engine.workers
        keep_freed_memory()
        torch.set_num_threads(parts.job.engine.threads_per_client)  # the coordinator sums too
        self._shares: MutableSequence[float] = [0.0]  # of the answers under way, what is done
        self._app = None
        if workers == 1:
            self._app = parts.build(partial(self._shares.__setitem__, 0))
        self._pool = None
        self._parts: PartsFile | None = None
        if workers > 1:
            context = get_context("spawn")
            self._shares = context.RawArray("d", workers)
            self._parts = PartsFile(parts, spool)
            self._pool = ProcessPoolExecutor(
                workers,
                mp_context=context,
                initializer=_start_worker,
                initargs=(spool, self._parts, self._shares, context.Value("i", 0)),
            )

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """Answers in the order of the requests."""
        self._spool.clear()
        asked = broadcasts[0].ask if broadcasts else ""
        what, shares = IN_WORDS.get(asked, asked.replace("_", " ")), self._shares
        with self._progress.request(what, len(broadcasts), lambda: sum(shares)) as request:
            return self._here(broadcasts, request) if self._app else self._in_workers(broadcasts, request)

    def _here(self, broadcasts: Sequence[Broadcast], request: Question) -> list[Answer]:
        assert self._app is not None
        answers: list[Answer] = []
        for broadcast in broadcasts:
            answer = self._app.answer(broadcast)
            self._shares[0] = 0.0
            request.answered()
            answers.append(self._spool.stored(answer) if isinstance(answer, Update) else answer)
        return answers

    def _in_workers(self, broadcasts: Sequence[Broadcast], request: Question) -> list[Answer]:
        assert self._pool is not None
        written: dict[int, Path] = {}
        futures = []
        for broadcast in broadcasts:
            # Most requests of a round carry the very same tensors: written once, mapped by every worker.
            identity = id(broadcast.tensors)
            if identity not in written:
                written[identity] = self._spool.write(broadcast.tensors)
            bare = replace(broadcast, tensors={})
            futures.append(self._pool.submit(_answer_in_worker, bare, written[identity]))
            futures[-1].add_done_callback(lambda _: request.answered())
        answers: list[Answer] = []
        for future in futures:
            try:
                answer, path = future.result()
            except BrokenProcessPool as error:
                raise EngineError(
                    "a worker process was ended from outside, most often for lack of memory; "
                    "continue with --resume, and with fewer engine.workers if it happens again"
                ) from error
            if isinstance(answer, Update) and path is not None:
                answer = replace(answer, tensors=self._spool.read(path))
            answers.append(answer)
        return answers

    def close(self) -> None:
        """End the workers and remove what waited."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._parts is not None:
            self._parts.close()
        self._spool.remove()


class _Worker:
    """A worker process's own client app, and the tensors it read last."""

    def __init__(
        self, spool: Path, parts: ClientAppParts, shares: MutableSequence[float], place: int
    ) -> None:
        self.shares, self.place = shares, place
        if parts.job.engine.device != "cpu":
            take_gpu(place)
        self.app = parts.build(partial(shares.__setitem__, place))
        self.spool = Spool(spool / f"worker-{os.getpid()}")
        self.tensors: tuple[Path, Tensors] | None = None

    def answer(self, broadcast: Broadcast, path: Path) -> tuple[Answer, Path | None]:
        if self.tensors is None or self.tensors[0] != path:
            self.tensors = (path, map_tensors(path))
        answer = self.app.answer(replace(broadcast, tensors=self.tensors[1]))
        self.shares[self.place] = 0.0
        if not isinstance(answer, Update):
            return answer, None
        return replace(answer, tensors={}), self.spool.write(answer.tensors)


def take_gpu(place: int) -> None:
    """Make one of several GPUs this process's own, before a model is put there.

    Args:
        place: which of the workers this is, from 0; they take the GPUs in turn.
    """
    gpus = torch.cuda.device_count()
    if gpus > 1:
        torch.cuda.set_device(place % gpus)


def _end_with_parent() -> None:
    """End with the process that started this one, however that ends: none is left behind."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


_worker: _Worker


def _start_worker(spool: Path, file: PartsFile, shares: MutableSequence[float], started: Any) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with started.get_lock():
        place = started.value
        started.value += 1
    _worker = _Worker(spool, file.load(), shares, place)


def _answer_in_worker(broadcast: Broadcast, path: Path) -> tuple[Answer, Path | None]:
    return _worker.answer(broadcast, path)
