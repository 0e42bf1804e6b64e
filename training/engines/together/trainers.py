"""Starts the processes that train a client together, asks them, and ends all of them when one is gone.

The process that asks takes part in no collective operation: it waits for reports and for ends of processes,
so that nothing that happens to one of them can make it wait for ever. They are started at the first training
and stay for the next ones; after an error new ones are started.
"""

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import monotonic

from training.algorithms.share import Share
from training.engines.parts_file import PartsFile
from training.engines.together.member import Failed, Membership, Parts, Question, Trained, run_member
from training.errors import ProcessesError
from training.messages.message import Broadcast, Update
from training.messages.spool import Spool
from training.messages.tensor_file import map_tensors
from training.progress import Watch

SILENCE = 600.0  # seconds for which a process waits for another one, at most
SETTLING = 10.0  # seconds that the end of a process may take to show, when others have lost it
LOOK = 0.5  # seconds between looks at how much is done


@dataclass(frozen=True)
class Member:
    """A process, and the pipe to it."""

    share: Share
    process: SpawnProcess
    pipe: Connection

    def __str__(self) -> str:
        return f"process {self.share.rank + 1} of {self.share.of}"


class TrainingProcesses:
    """So many processes; implements `training.algorithms.client.Trainers`.

    Args:
        parts: what each builds its client app from.
        count: how many.
        folder: an empty folder for what waits.
        silence: seconds after which one that others wait for is taken to be gone.
        gpu_memory: the share of a GPU's memory that they may take; None for all. The first of them is on the
            GPU of the one that asks, and takes half of it.
    """

    def __init__(
        self,
        parts: Parts,
        count: int,
        folder: Path,
        silence: float = SILENCE,
        gpu_memory: float | None = None,
    ) -> None:
        self._parts, self._count, self._folder = parts, count, folder
        self._silence, self._gpu_memory = silence, gpu_memory
        self._meetings = itertools.count(1)
        self._members: tuple[Member, ...] = ()
        self._spool: Spool | None = None
        self._done = get_context("spawn").RawArray("d", 1)

    def fit(self, question: Broadcast, steps: int | None, watch: Watch) -> Update:
        """The answer of all of them to a question of training.

        Raises:
            ProcessesError: one of them ended, fell silent, failed, or came to other weights than the others.
            TrainingError: of ours that one of them met.
        """
        try:
            self._start()
            assert self._spool is not None
            self._spool.clear()
            path = self._spool.write(question.tensors)
            asked = Question(replace(question, tensors={}), path, steps)
            for member in self._members:
                try:
                    member.pipe.send(asked)
                except OSError:  # it is gone, and `_reports` says how
                    continue
            return joined(self._reports(watch))
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """End them, and remove what waited."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        if self._members:
            return
        context = get_context("spawn")
        folder = self._folder / f"{next(self._meetings)}"
        self._spool = Spool(folder / "questions")
        parts = PartsFile(self._parts, folder)
        members = []
        for rank in range(self._count):
            share = Share(rank, self._count)
            ours, theirs = context.Pipe()
            memory = self._gpu_memory
            if memory is not None and rank == 0:
                memory /= 2
            membership = Membership(share, parts, folder, self._silence, memory)
            process = context.Process(
                target=run_member, args=(membership, theirs, self._done), name=f"train-{rank}", daemon=True
            )
            process.start()
            theirs.close()
            members.append(Member(share, process, ours))
            self._members = tuple(members)
        parts.close()

    def _end(self) -> None:
        """Kill them: one that waits for another listens to nothing else."""
        for member in self._members:
            member.process.kill()
        for member in self._members:
            member.process.join()
            member.pipe.close()
        self._members, self._spool = (), None

    def _reports(self, watch: Watch) -> list[Trained]:
        """What each reports, in their order.

        Raises:
            ProcessesError: one ended or failed, or was silent for longer than others may wait.
        """
        found: dict[int, Trained] = {}
        self._done[0] = 0.0
        since: float | None = None  # when the first of them was done
        while len(found) < len(self._members):
            waiting = [member for member in self._members if member.share.rank not in found]
            ready = wait([each for m in waiting for each in (m.pipe, m.process.sentinel)], timeout=LOOK)
            for member in waiting:
                if member.pipe in ready:
                    report = self._received(member)
                    if isinstance(report, Failed):
                        raise self._error_of(member, report)
                    found[member.share.rank] = report
                elif member.process.sentinel in ready:
                    raise ended(member)
            watch(self._done[0])
            since = monotonic() if found and since is None else since
            if since is not None and monotonic() - since > self._silence and len(found) < len(self._members):
                raise ProcessesError(
                    f"{waiting[0]} of a training has been silent for {self._silence:g} s after others were "
                    "done; all were ended"
                )
        return [found[rank] for rank in sorted(found)]

    def _received(self, member: Member) -> Trained | Failed:
        try:
            report: Trained | Failed = member.pipe.recv()
        except (EOFError, OSError) as error:
            raise ended(member) from error
        return report

    def _error_of(self, member: Member, failed: Failed) -> Exception:
        """What to raise: the error of ours, or which process another one lost."""
        if failed.error is not None:
            return failed.error
        others = [each for each in self._members if each is not member]
        gone = wait([each.process.sentinel for each in others], timeout=SETTLING)
        for other in others:
            if other.process.sentinel in gone:
                return ended(other)
        return ProcessesError(
            f"{member} of a training failed, or waited for another in vain: {failed.text}; all were ended"
        )


def ended(member: Member) -> ProcessesError:
    """That a process ended by itself, and how."""
    member.process.join()
    code = member.process.exitcode or 0
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return ProcessesError(
        f"{member} that train together ended {how}, most often for lack of memory; the others were ended, "
        "too. Give the machine more memory, or train in fewer processes"
    )


def joined(reports: Sequence[Trained]) -> Update:
    """The answer, which the first has.

    Raises:
        ProcessesError: not all came to the same weights.
    """
    apart = [place + 1 for place, report in enumerate(reports) if report.digest != reports[0].digest]
    if apart:
        raise ProcessesError(
            f"processes {', '.join(map(str, apart))} of {len(reports)} that train together came to other "
            "weights than the first; are their GPUs of one kind?"
        )
    update, path = reports[0].update, reports[0].tensors
    assert update is not None, "the first process answers"
    assert path is not None, "with tensors"
    return replace(update, tensors=map_tensors(path))
