"""The engine over a network: questions to all sites at once, answers as they come, nobody silently missing.

A site that is away is not asked until it gives a sign of life. A round that would have too few answers waits
for the sites that are away and asks them then; whom it waits for is told.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from training.body import Body, write_long_body
from training.data import SERVER
from training.engines.nvflare.attendance import Attendance
from training.engines.nvflare.counted import Counted
from training.engines.nvflare.errand import Errand
from training.engines.nvflare.ledger import Ledger
from training.engines.nvflare.lines import Line, StoppedError
from training.engines.nvflare.pace import Pace
from training.engines.nvflare.quorum import needed
from training.engines.nvflare.round import Round
from training.federation import FIT
from training.job import Job
from training.messages import Answer, Broadcast, Failure, Tensors, Update, tensor_bytes
from training.site import Site
from training.spool import Spool, SpooledTensors
from training.wire import stamp_of

MEMORY_FOR_UPDATES = 1 << 30  # bytes of waiting updates that stay in memory; the rest waits on disk
TOLD_EVERY = 60.0  # seconds between lines that say for whom a round waits


@dataclass
class Status:
    """What whoever follows the run is told beside its log.

    Attributes:
        asking: the question under way.
        away: the sites that are away, and why.
        waiting: the sites for which the run waits.
        answered, pending: the clients that have answered it, and those that are to.
        seconds: since it was asked.
    """

    asking: str = ""
    away: dict[str, str] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    seconds: float = 0.0


class NvflareEngine:
    """Asks clients at the sites of a network.

    Args:
        job: the job.
        lines: the sites that can be reached in this session, by name.
        attendance: who of them is there.
        session: see `training.wire.Stamp`.
        ledger: which trainings arrived.
        counted: the sites' answers to the census.
        spool: an empty folder for updates that wait.
        own: plays the coordinator's own client, where the job has one.
        say: takes one line for whoever follows the run.
        stopped: whether the run was stopped from outside.
        memory: bytes of updates that may wait in memory.

    Attributes:
        landing: see `training.engines.nvflare.round.Rules`.
    """

    def __init__(
        self,
        job: Job,
        lines: Mapping[str, Line],
        *,
        attendance: Attendance,
        session: str,
        ledger: Ledger,
        counted: Counted,
        spool: Path,
        own: Site | None = None,
        say: Callable[[str], None] = print,
        stopped: Callable[[], bool] = bool,
        memory: int = MEMORY_FOR_UPDATES,
    ) -> None:
        self._job = job
        self._lines = lines
        self._session = session
        self._ledger = ledger
        self._counted = counted
        self._spool = Spool(spool)
        self._own = own
        self._say = say
        self._stopped = stopped
        self._memory = memory
        self.landing = threading.Lock()
        self._pace = Pace(job.engine.network, ledger.pace)
        self._attendance = attendance
        self._number = 0
        self._waiting_bytes = 0
        self._told = -TOLD_EVERY
        self._status = Status()
        self._errands: Sequence[Errand] = ()
        self._asked = 0.0

    @property
    def status(self) -> Status:
        """Where the run stands."""
        errands = self._errands
        open_ = {errand.question.client for errand in errands if errand.answer is None}
        asked = dict.fromkeys(errand.question.client for errand in errands)
        return replace(
            self._status,
            away=self._attendance.away,
            answered=tuple(name for name in asked if name not in open_),
            pending=tuple(name for name in asked if name in open_),
            seconds=round(time.monotonic() - self._asked, 1) if errands else 0.0,
        )

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """Answers in the order of the questions; blocks until there are as many as the round needs."""
        self._spool.clear()
        self._waiting_bytes = 0
        if not broadcasts:
            return []
        self._status = Status(asking=f"{broadcasts[0].stage} {broadcasts[0].round} {broadcasts[0].ask}")
        errands = [self._errand(broadcast) for broadcast in broadcasts]
        self._errands, self._asked = errands, time.monotonic()
        enough = self._job.engine.network.enough
        Round(errands, self._lines, self._attendance, self._pace, self, enough=enough).run(self._play, SERVER)
        for errand in errands:
            self._counted.keep(errand.question, errand.answer)
            if isinstance(errand.answer, Update) and errand.question.ask == FIT:
                self._ledger.enter(errand.question)
        self._ledger.save(self._pace.to_json())
        self._status, self._errands = Status(), ()
        return [errand.answer for errand in errands if errand.answer is not None]

    def close(self) -> None:
        """Ask nobody any more."""
        self._attendance.close()
        self._spool.remove()

    def needed(self, question: Broadcast, asked: int) -> int:
        """How many of `asked` answers to such a question there must be before the round goes on."""
        return needed(self._job, question, asked)

    def written(self, tensors: Tensors) -> Body:
        """A question's tensors as they travel, on disk where they are many."""
        return write_long_body(tensors, self._spool)

    def stored(self, answer: Update) -> Update:
        """The answer in memory, or on disk where there is no room, or where it came as a file."""
        if isinstance(answer.tensors, SpooledTensors):
            return answer
        self._waiting_bytes += tensor_bytes(answer.tensors)
        return self._spool.spooled(answer) if self._waiting_bytes > self._memory else answer

    def refuse_if_stopped(self) -> None:
        """See `Rules`.

        Raises:
            StoppedError: the run was stopped.
        """
        if self._stopped():
            raise StoppedError(
                "the run was stopped; it continues from its checkpoint when it is taken up again"
            )

    def waits_for(self, clients: Sequence[str], away: Mapping[str, str]) -> None:
        """Tell for whom the run waits, now and then."""
        self._status.waiting = tuple(clients)
        if clients and time.monotonic() - self._told > TOLD_EVERY:
            self._told = time.monotonic()
            reasons = "; ".join(f"{name}: {away[name]}" for name in clients)
            self._say(f"{self._status.asking} waits for {', '.join(clients)}. {reasons}")

    def _errand(self, question: Broadcast) -> Errand:
        self._number += 1
        stamp = stamp_of(question, self._job.digest, self._session, self._number)
        kept = self._ledger.before(question) if question.ask == FIT else self._ledger.latest(question)
        return Errand(question, stamp, kept, self._counted.known(question))

    def _play(self, question: Broadcast) -> Answer:
        if self._own is None:
            return Failure(
                SERVER,
                question.track,
                "the coordinator has no pictures: start it with --data, since the job has a `data.server`",
            )
        return self._own.answer(question)
