"""One round over a network, from the first question to the last that is settled."""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from training.body import PIECE, Body, size_of
from training.engines.nvflare.attendance import Attendance
from training.engines.nvflare.background import in_background
from training.engines.nvflare.errand import Arrival, Errand
from training.engines.nvflare.lines import Line, LineError, SiteRefusedError
from training.engines.nvflare.pace import Pace
from training.errors import MessageError
from training.federation import FIT
from training.messages import Answer, Broadcast, Failure, Tensors, Update
from training.wire import read_answer, write_question

GLANCE = 0.2  # seconds between looks at who is away while nothing arrives


class Rules(Protocol):
    """What a round goes by.

    Attributes:
        landing: held by whoever reads an answer that came, and puts it where it can wait.
    """

    landing: threading.Lock

    def needed(self, question: Broadcast, asked: int) -> int:
        """How many of `asked` answers to such a question there must be before the round goes on."""

    def written(self, tensors: Tensors) -> Body:
        """A question's tensors as they travel."""

    def stored(self, answer: Update) -> Update:
        """The answer where it can wait."""

    def refuse_if_stopped(self) -> None:
        """Raise `StoppedError` when the run was stopped from outside."""

    def waits_for(self, clients: Sequence[str], away: Mapping[str, str]) -> None:
        """Tell for whom the round waits."""


class Round:
    """The questions of one round.

    Args:
        errands: the questions.
        lines: the sites that can be reached.
        attendance: who is there.
        pace: how long each may take.
        rules: what the round goes by.
        enough: whether it ends as soon as it has the answers that it needs.
    """

    def __init__(
        self,
        errands: Sequence[Errand],
        lines: Mapping[str, Line],
        attendance: Attendance,
        pace: Pace,
        rules: Rules,
        *,
        enough: bool,
    ) -> None:
        self._errands = errands
        self._lines = lines
        self._attendance = attendance
        self._pace = pace
        self._rules = rules
        self._enough = enough
        self._arrivals: queue.Queue[Arrival] = queue.Queue()
        self._bodies: dict[int, Body] = {}
        self._writing = threading.Lock()
        self._under_way: list[Future[None]] = []

    def run(self, play: Callable[[Broadcast], Answer], own: str) -> None:
        """Ask everybody who is there; take what arrives until every question is settled.

        Args:
            play: answers for the client that the coordinator owns, here and meanwhile.
            own: that client's name.
        """
        open_ = [errand for errand in self._errands if errand.answer is None]
        for client in dict.fromkeys(errand.question.client for errand in open_):
            theirs = [errand for errand in open_ if errand.question.client == client]
            if client == own:
                for errand in theirs:
                    errand.out = True
            else:
                self._ask(client, theirs)
        for errand in open_:
            if errand.question.client == own:
                errand.answer, errand.out = play(errand.question), False
        while any(errand.answer is None for errand in self._errands):
            self._rules.refuse_if_stopped()
            self._raise_what_broke()
            try:
                arrival = self._arrivals.get(timeout=GLANCE)
            except queue.Empty:
                self._look_around()
            else:
                self._take(arrival)

    def _ask(self, client: str, errands: Sequence[Errand]) -> None:
        """Send one site's questions, one after another, unless it is away."""
        line = self._lines.get(client)
        away = self._attendance.away
        if line is None or client in away:
            for errand in errands:
                self._arrivals.put(Arrival(errand, errand.attempt, None, away.get(client, "not connected")))
            return
        for errand in errands:
            errand.out, errand.since = True, None
        work = partial(self._carry, line, [(errand, errand.attempt) for errand in errands])
        self._under_way.append(in_background(work, f"ask-{client}"))

    def _carry(self, line: Line, errands: Sequence[tuple[Errand, int]]) -> None:
        for errand, attempt in errands:
            if errand.attempt != attempt:
                return  # it was asked anew, and with it what was to come after
            question = errand.question
            started = time.monotonic()
            answer: Answer | None = None
            reason = ""
            asked = self._body(question)
            self._alive(errand, attempt)
            try:
                header, body = line.ask(
                    write_question(question, errand.stamp, errand.kept),
                    asked,
                    self._pace.deadline(question),
                    partial(self._alive, errand, attempt),
                )
                answer = self._landed(errand, header, body)
                del body  # or it would stay while the site's next question is on its way
            except LineError as error:
                reason = f"{error}"
            except (SiteRefusedError, MessageError) as error:
                answer = Failure(question.client, question.track, f"{error}")
            self._arrivals.put(Arrival(errand, attempt, answer, reason, time.monotonic() - started))

    def _alive(self, errand: Errand, attempt: int) -> None:
        if errand.attempt == attempt:
            errand.since = self._attendance.now()

    def _landed(self, errand: Errand, header: str, body: Body) -> Answer | None:
        """The answer where it can wait; None where the question was settled without it.

        One after another: of many that come at once, one at a time is in memory as bytes and as tensors.
        """
        with self._rules.landing:
            if errand.answer is not None:
                return None
            answer = read_answer(header, body, errand.stamp)
            return self._rules.stored(answer) if isinstance(answer, Update) else answer

    def _lost(self, errand: Errand) -> bool:
        question = errand.question
        return errand.since is not None and self._attendance.lost_on_the_way(
            question.client, errand.since, min(size_of(self._body(question)), PIECE), errand.attempt
        )

    def _ask_anew(self, client: str) -> None:
        """Ask a site again what it was asked, since that or its answer was lost on the way."""
        theirs = [errand for errand in self._errands if errand.question.client == client]
        open_ = [errand for errand in theirs if errand.answer is None]
        for errand in open_:
            errand.attempt += 1
        self._ask(client, open_)

    def _raise_what_broke(self) -> None:
        """A thread that ended by an error of ours brings nothing back; its error ends the round."""
        for future in self._under_way:
            if future.done():
                future.result()

    def _body(self, question: Broadcast) -> Body:
        # Most questions of a round carry the very same tensors: written once.
        with self._writing:
            identity = id(question.tensors)
            if identity not in self._bodies:
                self._bodies[identity] = self._rules.written(question.tensors)
            return self._bodies[identity]

    def _take(self, arrival: Arrival) -> None:
        errand, answer = arrival.errand, arrival.answer
        anew = arrival.attempt != errand.attempt and not isinstance(answer, Update)
        if errand.answer is not None or anew:
            return  # too late: the question was settled without it, or is asked anew
        errand.out = False
        if answer is None:
            self._rules.refuse_if_stopped()  # which ends all lines at once: nobody is away for that
            self._attendance.lost(errand.question.client, arrival.reason)
            errand.attempt += 1
            self._leave_out_if_possible(errand, arrival.reason)
            return
        if isinstance(answer, Update):
            self._pace.took(errand.question, arrival.seconds)
        errand.answer = answer
        if self._enough and errand.question.ask == FIT:
            self._end_early(errand)

    def _leave_out_if_possible(self, errand: Errand, reason: str) -> None:
        """Settle a question to a site that is away where the round can do without it, or is lost anyway."""
        group = self._group(errand)
        needed = self._rules.needed(errand.question, len(group))
        hopeful = sum(other.hopeful for other in group)
        possible = sum(other.hopeful or other.answer is None for other in group)
        if hopeful >= needed or possible < needed:
            errand.leave_out(reason)

    def _group(self, errand: Errand) -> list[Errand]:
        """The questions whose answers are counted together."""
        asked = errand.question
        return [
            other
            for other in self._errands
            if (other.question.ask, other.question.track) == (asked.ask, asked.track)
        ]

    def _end_early(self, errand: Errand) -> None:
        group = self._group(errand)
        needed = self._rules.needed(errand.question, len(group))
        if sum(isinstance(other.answer, Update) for other in group) < needed:
            return
        for other in group:
            if other.answer is None:
                other.leave_out(
                    f"came too late: the round ended with {needed} answers (engine.network.enough)"
                )

    def _look_around(self) -> None:
        """Give up sites that went away while they were asked; ask those again that came back."""
        away = self._attendance.away
        waiting = []
        for errand in self._errands:
            client = errand.question.client
            if errand.answer is not None:
                continue
            if client not in away:
                if not errand.out:
                    self._ask(client, [errand])
                elif self._lost(errand):
                    self._ask_anew(client)
            elif errand.out:
                self._take(Arrival(errand, errand.attempt, None, away[client]))
            else:
                self._leave_out_if_possible(errand, away[client])
                waiting.append(client)
        self._rules.waits_for(list(dict.fromkeys(waiting)), away)
