"""The dynamic batcher: threads that decode pictures and run the models on batches of them.

A thread that becomes free takes the decoded picture that has waited longest, and with it up to `max_batch`
in all of those that wait for the same version (of cases, those of as many pictures); where some of these are
not decoded yet, it decodes one. Where no decoded picture waits, it decodes the next. More threads than cores
would only get in each other's way, and what is nearly done comes first. Only where batches pay does one
thread wait a moment for what others decode (`serving.inference.gathering`). A picture that comes while
nothing else is worked on goes at once, and may have several threads to itself.

A picture whose decoding costs more than its share is put by (`serving.inference.costly_line`): no
other waits for it.

The threads hand work to each other and call the event loop with answers alone, so that a loop that is busy
with requests keeps no core idle.

A picture whose request was given up is neither decoded nor run. A version is referenced by its pictures only:
one that was replaced is freed with the last of them.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from registry.bundle.model_file.graph import Graph
from serving.decoding.decoders import CostlyPicture
from serving.inference.costly_line import CostlyLine
from serving.inference.gathering import Batching, Choice, choose
from serving.inference.predictor import Decoded, LoadedVersion
from serving.inference.queued_picture import Answer, Answers, QueuedPicture, deliver
from serving.inference.run_batch import run_batch
from serving.metrics.metrics import Metrics


@dataclass(frozen=True)
class SchedulerStep:
    """One piece of work for a thread: decoding a picture, or running a model on a batch.

    Attributes:
        pictures: the one to decode, or the batch.
        graph: the model to run; None where a picture is to be decoded.
    """

    pictures: Sequence[QueuedPicture]
    graph: Graph | None = None


class Scheduler:
    """Decodes pictures and runs the models of all versions, batching pictures of one version."""

    def __init__(self, max_threads: int, batching: Batching, metrics: Metrics) -> None:
        """Starts no thread yet; threads are started when there is work for them.

        Args:
            max_threads: how many threads work at most, over all versions.
            batching: how pictures are put together.
            metrics: where queue length, batch sizes and the time of each stage are counted.
        """
        self._max_threads = max_threads
        self._batching = batching
        self._metrics = metrics
        self._undecoded: deque[QueuedPicture] = deque()
        self._decoded: deque[QueuedPicture] = deque()
        self._decoding: list[QueuedPicture] = []
        self._running: list[LoadedVersion] = []
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for work
        self._busy = 0  # threads whose answers are not there yet
        self._closed = False
        lock = threading.RLock()
        self._work = threading.Condition(lock)
        self._gathered = threading.Condition(lock)
        self._gathering = False  # whether a thread waits for pictures that others decode
        self._costly = CostlyLine(self._decode_costly, metrics)

    async def infer(
        self,
        loaded: LoadedVersion,
        decode: Callable[[], Decoded],
        decode_costly: Callable[[], Decoded] | None = None,
    ) -> Answer:
        """Decodes one picture and runs the version's model; returns both, the outputs as a batch of one.

        Args:
            loaded: the version.
            decode: decodes the picture.
            decode_costly: decodes it where `decode` raises `CostlyPicture`.

        Raises:
            Exception: whatever the one that decodes it raises.
            Busy: as many costly pictures wait as may.
            GraphError: the picture is not what the model takes, or its outputs are broken.
        """
        picture = QueuedPicture(loaded, decode, decode_costly, asyncio.get_running_loop().create_future())
        with self._work:
            self._undecoded.append(picture)
            self._count_waiting()
            self._wake()
        try:
            return await picture.answer
        finally:
            if picture.answer.cancelled():
                self._discard(picture)

    def close(self) -> None:
        """Ends the threads, each after the step it is in."""
        with self._work:
            self._closed = True
            self._work.notify_all()
            self._gathered.notify_all()
        for thread in self._threads:
            thread.join()
        self._costly.close()

    def _wake(self) -> None:
        """Has a thread look for the next step, if there is one more that may."""
        if self._idle:
            self._idle -= 1  # here, for it may take a while to wake up
            self._work.notify()
        elif len(self._threads) < self._max_threads:
            thread = threading.Thread(target=self._run, name="pictures", daemon=True)
            self._threads.append(thread)
            thread.start()
        else:
            self._gathered.notify()

    def _discard(self, picture: QueuedPicture) -> None:
        self._costly.discard(picture)
        with self._work:
            for waiting in (self._undecoded, self._decoded):
                if picture in waiting:
                    waiting.remove(picture)
            self._count_waiting()

    def _count_waiting(self) -> None:
        self._metrics.waiting(len(self._undecoded) + len(self._costly) + len(self._decoded))

    def _run(self) -> None:
        """The loop of every thread."""
        while (step := self._next()) is not None:
            try:
                answers = self._execute(step)
            except Exception as error:  # noqa: BLE001 - raised again for whoever waits
                answers = [(picture.answer, error) for picture in step.pictures]
            self._finish(step)
            del step  # it references a version, which may be freed when its last answer is out
            if answers:
                deliver(answers)
            del answers

    def _next(self) -> SchedulerStep | None:
        """Waits for the next step; None once the scheduler is closed."""
        with self._work:
            while not self._closed:
                choice = choose(
                    self._undecoded,
                    self._decoded,
                    decoding=self._decoding,
                    running=self._running,
                    batching=self._batching,
                    now=time.monotonic(),
                )
                if step := self._choose_step(choice):
                    self._busy += 1
                    self._count_waiting()
                    return step
                if choice.wait is not None and not self._gathering:
                    self._gathering = True
                    self._gathered.wait(choice.wait)
                    self._gathering = False
                    continue
                self._idle += 1
                self._work.wait()
            return None

    def _finish(self, step: SchedulerStep) -> None:
        with self._work:
            self._busy -= 1
            if step.graph is not None:
                del self._running[_place(step.pictures[0].loaded, self._running)]
            else:
                for one in step.pictures:
                    self._decoding.remove(one)
                # The thread that decoded looks for the next step at once: no other need be woken for these.
                self._decoded += [
                    one for one in step.pictures if one.decoded and not (one.put_by or one.answer.done())
                ]

    def _choose_step(self, choice: Choice[QueuedPicture]) -> SchedulerStep | None:
        """The step that was chosen, its pictures taken from those that wait; None where there is none."""
        if choice.decode is not None:
            self._undecoded.remove(choice.decode)
            self._decoding.append(choice.decode)
            return SchedulerStep([choice.decode])
        if not choice.show:
            return None
        for one in choice.show:
            self._decoded.remove(one)
        loaded = choice.show[0].loaded
        self._running.append(loaded)
        alone = len(choice.show) == 1 and not (self._undecoded or self._decoded or self._busy)
        graph = loaded.lone_graph if alone and loaded.lone_graph is not None else loaded.graph
        return SchedulerStep(choice.show, graph)

    def _execute(self, step: SchedulerStep) -> Answers:
        """Executes a step, and returns the answers that are complete after it."""
        if step.graph is not None:
            return self._run_model(step.graph, step.pictures)
        for picture in step.pictures:
            if not picture.answer.done():  # not given up
                try:
                    self._decode(picture, picture.decode)
                except CostlyPicture:
                    self._put_by(picture)
        return ()

    def _put_by(self, picture: QueuedPicture) -> None:
        """Leaves a costly picture to the line for such ones."""
        if picture.decode_costly is None:
            raise RuntimeError("the picture is costly, and nothing decodes such a one")
        picture.put_by = True
        self._costly.put(picture)
        self._count_waiting()

    def _decode_costly(self, picture: QueuedPicture) -> None:
        """Decodes a picture of the line for costly ones, and puts it where decoded ones wait."""
        self._count_waiting()
        if picture.answer.done() or picture.decode_costly is None:
            return
        try:
            self._decode(picture, picture.decode_costly)
        except Exception as error:  # noqa: BLE001 - raised again for whoever waits
            deliver([(picture.answer, error)])
            return
        with self._work:
            if not picture.answer.done():
                self._decoded.append(picture)
                self._wake()

    def _decode(self, picture: QueuedPicture, decode: Callable[[], Decoded]) -> None:
        began = time.monotonic()
        picture.waited = began - picture.waiting_since
        picture.decoded = decode()
        picture.waiting_since = time.monotonic()
        version = picture.loaded.version
        self._metrics.stage(version.model, version.number, "decoding", picture.waiting_since - began)

    def _run_model(self, graph: Graph, pictures: Sequence[QueuedPicture]) -> Answers:
        shown = [(one, one.decoded) for one in pictures if one.decoded is not None]
        began = time.monotonic()
        outputs = run_batch(graph, [decoded.question for _, decoded in shown])
        seconds = time.monotonic() - began
        self._metrics.batch(len(shown))
        answers: list[tuple[asyncio.Future[Answer], Answer | Exception]] = []
        for (one, decoded), output in zip(shown, outputs, strict=True):
            version = one.loaded.version
            waited = one.waited + began - one.waiting_since
            self._metrics.stage(version.model, version.number, "waiting", waited)
            self._metrics.stage(version.model, version.number, "model", seconds)
            answers.append((one.answer, output if isinstance(output, Exception) else (decoded, output)))
        return answers


def _place(version: LoadedVersion, running: Sequence[LoadedVersion]) -> int:
    """Where a version is in a list; versions are themselves alone, whatever they hold."""
    return next(place for place, one in enumerate(running) if one is version)
