"""Starts the processes that train a client together, asks them, and ends all of them when one is gone.

The process that asks takes part in no collective operation: it waits for reports and for ends of processes,
so that nothing that happens to one of them can make it wait for ever. They are started at the first training
and stay for the next ones; after an error new ones are started. Where a signal ended one, they do that
training once more.
"""

import itertools
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import monotonic

from training.algorithms.share import Share
from training.engines.parts_file import PartsFile
from training.engines.together.inherited_group import sockets_between
from training.engines.together.member import Failed, Membership, Parts, Question, Trained, run_member
from training.errors import ProcessesError
from training.messages.message import Broadcast, Update
from training.messages.spool import Spool
from training.messages.tensor_file import map_tensors
from training.progress import Watch

LOGGER = logging.getLogger("dermfed.together")
SILENCE = 600.0  # seconds for which a process waits for another one, at most
SETTLING = 10.0  # seconds that the end of a process may take to show, when others have lost it
LOOK = 0.5  # seconds between looks at how much is done
AGAIN = 1  # a process may be ended once for reasons of its own
OWNERS = 0o700  # a folder that nobody else looks into


@dataclass(frozen=True)
class Member:
    """A process, and the pipe to it."""

    share: Share
    process: SpawnProcess
    pipe: Connection

    def __str__(self) -> str:
        return f"{self.share}"


class KilledError(ProcessesError):
    """A signal ended one of the processes: the kernel ends one so where memory runs out."""


class TrainingProcesses:
    """So many processes; implements `training.algorithms.client.Trainers`.

    Args:
        parts: what each builds its client app from.
        count: how many.
        folder: a folder for what waits, of these processes alone; what others left there is removed.
        silence: seconds after which one that others wait for is taken to be gone.
        gpu_memory: the share of a GPU's memory that they may take; None for all. The first of them is on the
            GPU of the one that asks, and takes half of it.
        again: how often a training is begun anew where one of them is killed.
    """

    def __init__(
        self,
        parts: Parts,
        count: int,
        folder: Path,
        silence: float = SILENCE,
        gpu_memory: float | None = None,
        again: int = AGAIN,
    ) -> None:
        self._parts, self._count, self._folder = parts, count, folder
        self._silence, self._gpu_memory, self._again = silence, gpu_memory, again
        self._meetings = itertools.count(1)
        self._members: tuple[Member, ...] = ()
        self._spool: Spool | None = None
        self._done = get_context("spawn").RawArray("d", 1)

    def fit(self, question: Broadcast, steps: int | None, watch: Watch) -> Update:
        """The answer of all of them to a question of training.

        Where one is killed, the training is begun anew in others: it comes to the same.

        Raises:
            ProcessesError: one of them ended, fell silent, failed, or came to other weights than the others.
            TrainingError: of ours that one of them met.
        """
        for _ in range(self._again):
            try:
                return self._fit(question, steps, watch)
            except KilledError as error:
                LOGGER.warning("%s. The training is begun anew", error)
        return self._fit(question, steps, watch)

    def _fit(self, question: Broadcast, steps: int | None, watch: Watch) -> Update:
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
        if self._members and all(member.process.is_alive() for member in self._members):
            return
        self._end()  # where one was ended while nobody asked
        context = get_context("spawn")
        # Those of a process that was killed left the file at which they met: whoever found it would wait for
        # them.
        shutil.rmtree(self._folder, ignore_errors=True)
        folder = self._folder / f"{next(self._meetings)}"
        folder.mkdir(parents=True, mode=OWNERS)
        self._spool = Spool(folder / "questions")
        parts, inherited = PartsFile(self._parts, folder), sockets_between(self._count)
        for rank, sockets in enumerate(inherited):
            share = Share(rank, self._count)
            ours, theirs = context.Pipe()
            memory = self._gpu_memory
            if memory is not None and rank == 0:
                memory /= 2
            membership = Membership(share, parts, folder, sockets, self._silence, memory)
            process = context.Process(
                target=run_member, args=(membership, theirs, self._done), name=f"train-{rank}", daemon=True
            )
            process.start()
            theirs.close()
            self._members = (*self._members, Member(share, process, ours))
        parts.close()
        for sockets in inherited:  # theirs alone now: the end of one shows to the others
            for each in sockets.values():
                each.close()

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
        lost: dict[int, Failed] = {}  # who lost another one, which ends or tells the reason in a moment
        self._done[0] = 0.0
        first_found = first_lost = inf  # when the first of them was done, or lost another one
        while waiting := [each for each in self._members if each.share.rank not in found | lost]:
            ready = wait([each for m in waiting for each in (m.pipe, m.process.sentinel)], timeout=LOOK)
            for member in waiting:
                if member.pipe in ready:
                    report = self._received(member)
                    if isinstance(report, Trained):
                        found[member.share.rank] = report
                    elif report.lost:
                        lost[member.share.rank] = report
                    else:
                        raise report.error or failed(member, report)
                elif member.process.sentinel in ready:
                    raise ended(member)
            watch(self._done[0])
            now = monotonic()
            first_found = min(first_found, now) if found else first_found
            first_lost = min(first_lost, now) if lost else first_lost
            if now - first_lost > SETTLING:
                break
            if now - first_found > self._silence and waiting[-1].share.rank not in found | lost:
                raise ProcessesError(
                    f"{waiting[-1]} that train together has been silent for {self._silence:g} s after others "
                    "were done; all were ended"
                )
        for report in lost.values():
            raise ProcessesError(f"{report.text}; all were ended")
        return [found[rank] for rank in sorted(found)]

    def _received(self, member: Member) -> Trained | Failed:
        try:
            report: Trained | Failed = member.pipe.recv()
        except (EOFError, OSError) as error:
            raise ended(member) from error
        return report


def failed(member: Member, report: Failed) -> ProcessesError:
    """That a process met an error that is none of ours."""
    return ProcessesError(f"{member} that train together failed: {report.text}; all were ended")


def ended(member: Member) -> ProcessesError:
    """That a process ended by itself, and how."""
    member.process.join(SETTLING)
    code = member.process.exitcode
    if code is None:
        return ProcessesError(f"{member} that train together has let go of its line; all were ended")
    how, kind = (
        (f"by signal {-code}", KilledError) if code < 0 else (f"with exit code {code}", ProcessesError)
    )
    return kind(
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
