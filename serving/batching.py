"""The threads that work on pictures: they decode them, and show them to their models, several together.

Nobody waits for others to come. A thread that becomes free takes the decoded picture that has waited
longest, and with it up to `max_batch` in all of those that wait for the same version; where some of these
are not decoded yet, it decodes one. Where no decoded picture waits, it decodes the next. More threads than
cores would only get in each other's way, and what is nearly done comes first. A picture that comes while
nothing else is worked on goes at once, and may have several threads to itself.

The threads take their work from each other and tell the event loop of answers alone, so that a loop that is
busy with requests keeps no core idle.

A picture whose request was given up is neither decoded nor shown. A version is held by its pictures only:
the one that was replaced goes with the last of them.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from registry.bundle.graph import Graph, Outputs
from serving.metrics import Metrics
from serving.predictor import Decoded, LoadedVersion
from serving.showing import show

log = logging.getLogger("dermfed.serve")

Answer = tuple[Decoded, Outputs]
Answers = Sequence[tuple["asyncio.Future[Answer]", Answer | Exception]]


@dataclass(eq=False)
class Picture:
    """A picture before its model's run.

    Attributes:
        loaded: the version that it is for.
        decode: gives it as the version's model sees it.
        answer: is there in the end.
        since: when it began to wait.
        waited: seconds that it waited until it was decoded.
        decoded: what `decode` gave; None before.
    """

    loaded: LoadedVersion
    decode: Callable[[], Decoded]
    answer: "asyncio.Future[Answer]"
    since: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    decoded: Decoded | None = None


@dataclass(frozen=True)
class Step:
    """What a thread does next.

    Attributes:
        pictures: one that is to be decoded, or those that are to be shown together.
        graph: which they are shown to; None where one is to be decoded.
    """

    pictures: Sequence[Picture]
    graph: Graph | None = None


class Batching:
    """Decodes pictures and runs the models of all versions."""

    def __init__(self, at_once: int, max_batch: int, metrics: Metrics) -> None:
        """Nothing runs yet; threads are started when there is work for them.

        Args:
            at_once: how many threads work at most, over all versions.
            max_batch: how many pictures one run is shown at most.
            metrics: is told how many wait, how many were shown together, and how long each step took.
        """
        self._at_once = at_once
        self._max_batch = max_batch
        self._metrics = metrics
        self._undecoded: deque[Picture] = deque()
        self._decoded: deque[Picture] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for work
        self._busy = 0  # threads whose answers are not there yet
        self._closed = False
        self._work = threading.Condition()

    async def diagnose(self, loaded: LoadedVersion, decode: Callable[[], Decoded]) -> Answer:
        """One picture as the version's model sees it, and what the model answers, as a batch of one.

        Raises:
            Exception: whatever `decode` raises.
            GraphError: the picture is not what the model takes, or its answer is not one.
        """
        picture = Picture(loaded, decode, asyncio.get_running_loop().create_future())
        with self._work:
            self._undecoded.append(picture)
            self._tell()
            if self._idle:
                self._idle -= 1  # here, for it may take a while to wake up
                self._work.notify()
            elif len(self._threads) < self._at_once:
                thread = threading.Thread(target=self._run, name="pictures", daemon=True)
                self._threads.append(thread)
                thread.start()
        try:
            return await picture.answer
        finally:
            if picture.answer.cancelled():
                self._give_up(picture)

    def close(self) -> None:
        """Ends the threads, each when it has done what it is at."""
        with self._work:
            self._closed = True
            self._work.notify_all()
        for thread in self._threads:
            thread.join()

    def _give_up(self, picture: Picture) -> None:
        with self._work:
            for waiting in (self._undecoded, self._decoded):
                if picture in waiting:
                    waiting.remove(picture)
            self._tell()

    def _tell(self) -> None:
        self._metrics.waiting(len(self._undecoded) + len(self._decoded))

    def _run(self) -> None:
        """What every thread does."""
        while (step := self._next()) is not None:
            try:
                answers = self._do(step)
            except Exception as error:  # noqa: BLE001 - raised again for whoever waits
                answers = [(picture.answer, error) for picture in step.pictures]
            self._done(step)
            del step  # which holds a version, that may go when its last answer is out
            if answers:
                deliver(answers)
            del answers

    def _next(self) -> Step | None:
        """The next thing to do, when there is one; None when there will be none any more."""
        with self._work:
            while not self._closed:
                if step := self._take():
                    self._busy += 1
                    self._tell()
                    return step
                self._idle += 1
                self._work.wait()
            return None

    def _done(self, step: Step) -> None:
        with self._work:
            self._busy -= 1
            if step.graph is None:
                # Whoever did it looks for the next step at once: nobody need be woken for these.
                self._decoded += [one for one in step.pictures if one.decoded and not one.answer.done()]

    def _take(self) -> Step | None:
        if not self._decoded:
            return Step([self._undecoded.popleft()]) if self._undecoded else None
        loaded = self._decoded[0].loaded
        together = [one for one in self._decoded if one.loaded is loaded][: self._max_batch]
        if len(together) < self._max_batch:
            for one in self._undecoded:
                if one.loaded is loaded:
                    self._undecoded.remove(one)
                    return Step([one])
        for one in together:
            self._decoded.remove(one)
        lone = len(together) == 1 and not (self._undecoded or self._decoded or self._busy)
        return Step(together, loaded.wide if lone and loaded.wide is not None else loaded.graph)

    def _do(self, step: Step) -> Answers:
        """Takes a step, and gives the answers that are there after it."""
        if step.graph is not None:
            return self._show(step.graph, step.pictures)
        for picture in step.pictures:
            if not picture.answer.done():  # not given up
                self._decode(picture)
        return ()

    def _decode(self, picture: Picture) -> None:
        began = time.monotonic()
        picture.waited = began - picture.since
        picture.decoded = picture.decode()
        picture.since = time.monotonic()
        version = picture.loaded.version
        self._metrics.stage(version.model, version.number, "decoding", picture.since - began)

    def _show(self, graph: Graph, pictures: Sequence[Picture]) -> Answers:
        shown = [(one, one.decoded) for one in pictures if one.decoded is not None]
        began = time.monotonic()
        outputs = show(graph, [decoded.pixels for _, decoded in shown])
        seconds = time.monotonic() - began
        self._metrics.batch(len(shown))
        answers: list[tuple[asyncio.Future[Answer], Answer | Exception]] = []
        for (one, decoded), output in zip(shown, outputs, strict=True):
            version = one.loaded.version
            self._metrics.stage(version.model, version.number, "waiting", one.waited + began - one.since)
            self._metrics.stage(version.model, version.number, "model", seconds)
            answers.append((one.answer, output if isinstance(output, Exception) else (decoded, output)))
        return answers


def deliver(answers: Answers) -> None:
    """Hands answers to those who wait for them in their event loop, from another thread."""
    try:
        answers[0][0].get_loop().call_soon_threadsafe(_set, answers)
    except RuntimeError:  # the loop has ended, and with it whoever waited
        log.warning("%d answers came after the service had ended", len(answers))


def _set(answers: Answers) -> None:
    for future, answer in answers:
        if future.done():
            continue  # nobody waits for it any more
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
