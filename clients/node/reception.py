"""A node's reception: what the coordinator may ask of it, one question at a time, and what is refused.

It knows no network: text and bytes come in, text and bytes go out.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from clients.node.own_data import AgreedDataset, OwnData, read_own
from clients.node.rehearsal import Rehearsals
from clients.node.task_line import task_line
from clients.store import ClientStore
from training.allocator import keep_freed_memory
from training.body import Body, size_of, write_long_body
from training.compression.client_half import lost_key
from training.engines.nvflare.pulse import Pulse
from training.errors import MessageError, TrainingError
from training.fit import store_key
from training.greeting import Greeting, greet, refuse_strangers
from training.job import Job
from training.roster import Roster
from training.site import Site
from training.spool import Spool
from training.telling import outward
from training.wire import QuestionHeader, Stamp, read_question, write_answer

REFUSED = "refused"  # the key under which a refusal says why
Said = Callable[[str], None]


class Reception:
    """Answers the coordinator for one node and one job.

    Args:
        node: its name.
        job: the job, as it came.
        manifest: the node's pictures.
        cache: where decoded pictures are kept.
        states: where its client states are kept.
        say: takes one line for whoever watches the node.

    Attributes:
        session: that the coordinator greeted with last; empty before.
    """

    def __init__(
        self, node: str, job: Job, manifest: Path | None, *, cache: Path, states: Path, say: Said
    ) -> None:
        self._node = node
        self._job = job
        self._manifest = manifest
        self._cache = cache
        self._store = ClientStore(states)
        self._spool = Spool(states.with_name("answers"))
        self._rehearsals = Rehearsals(states.with_name("canary"))
        self._say = say
        self._lock = threading.Lock()
        self._own: OwnData | None = None
        self._site: Site | None = None
        self.session = ""
        self._newest = -1
        self._last: tuple[Stamp, tuple[str, Body]] | None = None
        self._answered = 0  # bytes of the last answer
        self._calls = 0
        self._counting = threading.Lock()

    def greet(self, greeting: str) -> str:
        """Compare versions and the job; a JSON greeting of this side, or a refusal."""
        try:
            theirs = Greeting.model_validate_json(greeting)
            ours = greet(self._job.digest, theirs.session)
            refuse_strangers("the coordinator", theirs, ours)
        except (TrainingError, ValueError) as error:
            return self._refuse(error)
        self.session = theirs.session
        return ours.model_dump_json()

    def close(self) -> None:
        """Forget the last answer."""
        self._last = None
        self._spool.remove()

    def pulse(self) -> Pulse:
        """A sign of life, at once, whatever else this node is doing."""
        return Pulse(busy=self._calls > 0, answer=self._answered)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """One question after another; those that wait count as work, too."""
        with self._counting:
            self._calls += 1
        try:
            with self._lock:
                yield
        finally:
            with self._counting:
                self._calls -= 1

    def introduce(self) -> str:
        """Read this node's pictures; a JSON introduction, or a refusal."""
        with self._busy():
            try:
                if self._manifest is None:
                    raise MessageError(f"{self._node} was started without --data; start it with its manifest")
                if self._own is None:
                    self._own = read_own(self._job, self._node, self._manifest, self._cache)
            except TrainingError as error:
                return self._refuse(error)
            self._say(
                f"{self._own.pictures} pictures for job {self._job.name}; none of them leaves this node"
            )
            return self._own.introduction.model_dump_json()

    def join(self, roster: str) -> str:
        """Take what all agreed on and get ready; an empty JSON object, or a refusal."""
        with self._busy():
            try:
                if self._own is None:
                    raise MessageError(f"{self._node} joins before it has introduced itself")
                agreed = Roster.model_validate_json(roster)
                agreed.refuse_other_data(self._own.introduction)
                keep_freed_memory()
                torch.set_num_threads(self._job.engine.threads_per_client)
                self._site = Site(self._job, AgreedDataset(self._own, agreed), self._store, self._tell)
            except (TrainingError, ValueError) as error:
                return self._refuse(error)
        return json.dumps({})

    def answer(self, header: str, body: Body) -> tuple[str, Body]:
        """Answer one question; one that came before another that is answered already is stale.

        Raises:
            MessageError: when it is no question to this node in this session.
        """
        question, broadcast = read_question(header, body)
        self._admit(question)
        with self._busy():
            if self._last is not None and same(self._last[0], question):
                return self._last[1]
            if question.number < self._newest:
                raise MessageError(
                    f"question {question.number} ({question.ask}, round {question.round}) is stale: question "
                    f"{self._newest} has come since. It is dropped"
                )
            if self._site is None:
                raise MessageError(f"{self._node} was asked before it joined")
            self._step_back(question)
            started = time.monotonic()
            answer = self._rehearsals.answer(broadcast, self._site.answer)
            self._spool.clear()
            told = write_answer(answer, question, lambda tensors: write_long_body(tensors, self._spool))
            self._last, self._answered = (question, told), size_of(told[1])
        seconds, sent = time.monotonic() - started, len(told[0].encode()) + self._answered
        self._say(task_line(self._job.name, question, answer, seconds, sent))
        return told

    def _step_back(self, question: QuestionHeader) -> None:
        """Forget what trainings left that never arrived: states, and what rounding lost of their updates."""
        for key in (store_key, lost_key):
            self._store.forget(self._node, key(question.stage, question.track), after=question.kept)

    def _admit(self, question: QuestionHeader) -> None:
        """Refuse what is not meant for this node, job and session; remember the newest number."""
        wanted = {"client": self._node, "job": self._job.digest, "session": self.session}
        for name, value in wanted.items():
            if getattr(question, name) != value:
                raise MessageError(
                    f"a question for {name} {getattr(question, name)!r} came to {name} {value!r}; dropped"
                )
        self._newest = max(self._newest, question.number)

    def _refuse(self, error: Exception) -> str:
        self._say(f"refused: {error}")
        return json.dumps({REFUSED: outward(error)})

    def _tell(self, error: Exception) -> str:
        """What may be told of an error elsewhere; where that is not all of it, the rest is said here."""
        told = outward(error)
        if told != f"{error}":
            self._say(f"{type(error).__name__}: {error}")
        return told


def same(earlier: Stamp, question: QuestionHeader) -> bool:
    """Whether a question is one that was answered last and is asked again, its answer having got lost."""
    return earlier == question
