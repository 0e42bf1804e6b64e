"""The dynamic batcher: threads that decode pictures and run the models on batches of them.

A free thread runs the decoded picture that has waited longest, together with up to `max_batch` in all that
wait for the same version (of cases, those of as many pictures); where some of these are not decoded yet, it
decodes one. Where no picture is decoded, it decodes the next one. Where `max_batch` is more than one, one
batch runs at a time: threads decode meanwhile, and what they have decoded is the next batch as soon as that
one ran. Nothing waits for pictures that are yet to come.

How many requests wait is bounded by `serving.access.admission`, which also ends those that take too long:
what is given up is neither decoded nor run. A version is referenced by its pictures only: one that was
replaced is freed with the last of them.

Where a batch fails, whatever the cause (the run, outputs that are not finite or of the wrong shape), each of
its pictures is run alone, and fails alone.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.diagnose import Question, ask
from registry.bundle.errors import GraphError
from registry.bundle.model import Graph, Outputs
from serving.inference.predictor import Decoded, LoadedVersion
from serving.metrics import Metrics
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

GPU_BATCH: Final = 32
"""Pictures that a model is shown at once on a GPU, unless a setting says otherwise."""

Answer = tuple[Decoded, Outputs]


@dataclass(eq=False)
class _Picture:
    """A picture, or a case, in the queue.

    Attributes:
        loaded: the version that it is for.
        decode: decodes it for the version's model.
        answer: the future of the decoded picture and the model's outputs.
        waiting_since: when it began to wait, to be decoded or to be run; on the monotonic clock.
        waited: seconds that it waited to be decoded.
        decoded: what `decode` returned; None before.
    """

    loaded: LoadedVersion
    decode: Callable[[], Decoded]
    answer: "asyncio.Future[Answer]"
    waiting_since: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    decoded: Decoded | None = None

    def goes_with(self, other: "_Picture") -> bool:
        """Whether two decoded ones may be run together: of one version, and of as many pictures each.

        A case with fewer pictures would get empty slots, which cost as much as pictures.
        """
        assert self.decoded is not None
        assert other.decoded is not None
        as_many = len(self.decoded.question.images) == len(other.decoded.question.images)
        return self.loaded is other.loaded and as_many


class Batcher:
    """Decodes pictures and runs the models of all versions, batching pictures of one version."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        """Starts no thread yet; threads are started when there is work for them.

        Args:
            settings: how many threads work, and how many pictures a model is shown at once.
            metrics: where queue length, batch sizes and the time of each stage are counted.
        """
        self._max_threads = settings.threads
        self._max_batch = settings.max_batch or (1 if settings.providers == "cpu" else GPU_BATCH)
        self._max_running = 1 if self._max_batch > 1 else settings.threads
        self._metrics = metrics
        self._undecoded: deque[_Picture] = deque()
        self._decoded: deque[_Picture] = deque()
        self._threads: list[threading.Thread] = []
        self._busy = 0  # threads that decode or run a model
        self._running = 0  # those of them that run one
        self._closed = False
        self._changed = threading.Condition()

    async def infer(self, loaded: LoadedVersion, decode: Callable[[], Decoded]) -> Answer:
        """Decodes one picture and runs the version's model; returns both, the outputs as a batch of one.

        Args:
            loaded: the version.
            decode: decodes the picture.

        Raises:
            Exception: whatever `decode` raises.
            GraphError: the picture is not what the model takes, or its outputs are broken.
        """
        picture = _Picture(loaded, decode, asyncio.get_running_loop().create_future())
        with self._changed:
            self._undecoded.append(picture)
            self._count_waiting()
            if len(self._threads) < self._max_threads:
                self._threads.append(threading.Thread(target=self._run, name="pictures", daemon=True))
                self._threads[-1].start()
            self._changed.notify()
        try:
            return await picture.answer
        finally:
            if picture.answer.cancelled():
                self._discard(picture)

    def close(self) -> None:
        """Ends the threads, each after what it is doing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _discard(self, picture: _Picture) -> None:
        with self._changed:
            for waiting in (self._undecoded, self._decoded):
                if picture in waiting:
                    waiting.remove(picture)
            self._count_waiting()

    def _count_waiting(self) -> None:
        self._metrics.waiting(len(self._undecoded) + len(self._decoded))

    def _run(self) -> None:
        """The loop of every thread."""
        while (work := self._next()) is not None:
            work()
            del work  # it references a version, which may be freed when its last answer is out

    def _next(self) -> Callable[[], None] | None:
        """Waits for the next piece of work; None once the batcher is closed."""
        with self._changed:
            while not self._closed:
                if self._decoded and self._running < self._max_running:
                    first = self._decoded[0]
                    batch = [one for one in self._decoded if one.goes_with(first)][: self._max_batch]
                    more = next((one for one in self._undecoded if one.loaded is first.loaded), None)
                    if more is None or len(batch) == self._max_batch:
                        return self._begin_run(batch)
                    return self._begin_decoding(more)
                if self._undecoded:
                    return self._begin_decoding(self._undecoded[0])
                self._changed.wait()
        return None

    def _begin_decoding(self, picture: _Picture) -> Callable[[], None]:
        self._undecoded.remove(picture)
        self._count_waiting()
        self._busy += 1
        return partial(self._decode, picture)

    def _begin_run(self, batch: Sequence[_Picture]) -> Callable[[], None]:
        loaded = batch[0].loaded
        for one in batch:
            self._decoded.remove(one)
        self._count_waiting()
        alone = len(batch) == 1 and not (self._busy or self._undecoded or self._decoded)
        graph = loaded.graph
        if loaded.lone_graph is not None and (alone or self._max_running == 1):
            graph = loaded.lone_graph
        self._busy += 1
        self._running += 1
        return partial(self._show, graph, batch)

    def _decode(self, picture: _Picture) -> None:
        began = time.monotonic()
        picture.waited = began - picture.waiting_since
        try:
            picture.decoded = picture.decode()
        except Exception as error:  # noqa: BLE001 - raised again for the request
            _deliver([(picture, error)])
        else:
            picture.waiting_since = time.monotonic()
            version = picture.loaded.version
            self._metrics.stage(version.model, version.number, "decoding", picture.waiting_since - began)
        with self._changed:
            self._busy -= 1
            # This thread looks for work at once, and whatever runs does when it has: no other need be woken.
            if picture.decoded is not None and not picture.answer.done():
                self._decoded.append(picture)

    def _show(self, graph: Graph, pictures: Sequence[_Picture]) -> None:
        decoded = [one.decoded for one in pictures if one.decoded is not None]
        began = time.monotonic()
        try:
            outputs = run_batch(graph, [one.question for one in decoded])
        except Exception as error:  # noqa: BLE001 - raised again for each request
            outputs = [error] * len(pictures)
        seconds = time.monotonic() - began
        with self._changed:
            self._busy -= 1
            self._running -= 1
        self._metrics.batch(len(pictures))
        for one in pictures:
            version = one.loaded.version
            waited = one.waited + began - one.waiting_since
            self._metrics.stage(version.model, version.number, "waiting", waited)
            self._metrics.stage(version.model, version.number, "model", seconds)
        found = zip(decoded, outputs, strict=True)
        answers = [output if isinstance(output, Exception) else (one, output) for one, output in found]
        _deliver([*zip(pictures, answers, strict=True)])


def _deliver(answers: Sequence[tuple[_Picture, Answer | Exception]]) -> None:
    """Resolves the futures of pictures in their event loop, from another thread."""
    futures = [(picture.answer, answer) for picture, answer in answers]
    try:
        futures[0][0].get_loop().call_soon_threadsafe(_resolve, futures)
    except RuntimeError:  # the loop has ended, and with it every request
        log.warning("%d answers came after the service had ended", len(futures))


def _resolve(answers: Sequence[tuple["asyncio.Future[Answer]", Answer | Exception]]) -> None:
    for future, answer in answers:
        if future.done():
            continue  # it was given up
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def run_batch(graph: Graph, questions: Sequence[Question]) -> list[Outputs | Exception]:
    """Runs the graph on a batch of questions; each gets its outputs, or the error that it raises alone."""
    if len(questions) > 1:
        try:
            return list(run_and_split(graph, questions))
        except Exception as error:  # noqa: BLE001 - whatever it is, it may be one question's alone
            log.warning("%d pictures shown together failed (%s); each is shown alone", len(questions), error)
    return [run_single(graph, one) for one in questions]


def run_single(graph: Graph, question: Question) -> Outputs | Exception:
    """Runs the graph on one question; returns its outputs, or the error."""
    try:
        return run_and_split(graph, [question])[0]
    except Exception as error:  # noqa: BLE001 - raised again for whoever waits for it
        return error


def run_and_split(graph: Graph, questions: Sequence[Question]) -> list[Outputs]:
    """Runs the graph on a batch of questions, and splits its outputs into batches of one.

    A map goes to whoever asked for it, and to nobody else; of a case without the slots that it has not.

    Raises:
        GraphError: the graph cannot run, or its outputs are not finite or not one for each question.
    """
    outputs = ask(graph, questions)
    expected = {
        "probabilities": (len(questions), graph.num_classes),
        "logits": (len(questions), graph.num_classes),
        "embedding": (len(questions), graph.num_features),
    }
    for name, shape in expected.items():
        if (found := getattr(outputs, name).shape) != shape:
            raise GraphError(
                f"the graph answered {name} of shape {found} for {len(questions)} pictures, not {shape}; "
                "the model is broken: export it again"
            )
    return [
        Outputs(
            outputs.probabilities[row : row + 1],
            outputs.logits[row : row + 1],
            outputs.embedding[row : row + 1],
            _map_of(question, outputs, row, graph),
        )
        for row, question in enumerate(questions)
    ]


def _map_of(question: Question, outputs: Outputs, row: int, graph: Graph) -> NDArray[np.float32] | None:
    """The map of one question, as a batch of one.

    Raises:
        GraphError: the map is not of the shape that the graph says.
    """
    if outputs.map is None or graph.map_shape is None or not question.with_map:
        return None
    found = outputs.map[row : row + 1]
    pictures = () if question.given is None else (len(question.images),)
    found = found if question.given is None else found[:, : len(question.images)]
    expected = (1, *pictures, graph.num_classes, *graph.map_shape)
    if found.shape != expected:
        raise GraphError(
            f"the graph answered a map of shape {found.shape} for one of {expected}; the model is broken: "
            "export it again"
        )
    return found
