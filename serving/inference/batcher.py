"""The dynamic batcher: threads that run the models on batches of decoded pictures.

A free thread runs the picture that has waited longest, together with up to `max_batch` in all that wait for
the same version (of cases, those of as many pictures). Where `max_batch` is more than one, one batch runs at
a time: what is decoded meanwhile is the next batch as soon as that one ran. Nothing waits for pictures that
are yet to come. What is decoded next is up to `serving.decoding.decoders`, which takes turns between API
keys.

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
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.diagnose import Question, ask
from registry.bundle.errors import GraphError
from registry.bundle.model import Graph, Outputs
from serving.decoding.decoded import Decode
from serving.decoding.decoders import Decoders
from serving.inference.predictor import Decoded, LoadedVersion
from serving.metrics.metrics import Metrics
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

GPU_BATCH: Final = 32
"""Pictures that a model is shown at once on a GPU, unless a setting says otherwise."""

Answer = tuple[Decoded, Outputs]


@dataclass(eq=False)
class _Picture:
    """A decoded picture, or case, that waits for its model.

    Attributes:
        loaded: the version that it is for.
        question: what the model is shown.
        outputs: the model's, as a batch of one.
        since: when it began to wait; on the monotonic clock.
    """

    loaded: LoadedVersion
    question: Question
    outputs: "Future[Outputs]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    def goes_with(self, other: "_Picture") -> bool:
        """Whether two may be run together: of one version, and of as many pictures each.

        A case with fewer pictures would get empty slots, which cost as much as pictures.
        """
        as_many = len(self.question.images) == len(other.question.images)
        return self.loaded is other.loaded and as_many


class Batcher:
    """Runs the models of all versions on decoded pictures, batching those of one version."""

    def __init__(self, settings: ServeSettings, metrics: Metrics, decoders: Decoders) -> None:
        """Starts no thread yet; threads are started when there is work for them.

        Args:
            settings: how many threads run models, and how many pictures a model is shown at once.
            metrics: where queue length, batch sizes and the time of each stage are counted.
            decoders: decode the pictures.
        """
        self._max_batch = settings.max_batch or (1 if settings.providers == "cpu" else GPU_BATCH)
        self._max_running = 1 if self._max_batch > 1 else settings.threads
        self._metrics = metrics
        self._decoders = decoders
        self._waiting: list[_Picture] = []
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._closed = False
        self._changed = threading.Condition()

    async def infer(
        self, loaded: LoadedVersion, prepare: Callable[[Decode], Decoded], key: str | None = None
    ) -> Answer:
        """Decodes one picture and runs the version's model; returns both, the outputs as a batch of one.

        Args:
            loaded: the version.
            prepare: decodes the picture by the function that it is given.
            key: the id of the API key that asks, for its turn.

        Raises:
            Exception: whatever `prepare` raises.
            GraphError: the picture is not what the model takes, or its outputs are broken.
        """
        version, began = loaded.version, time.monotonic()

        def timed(decode: Decode) -> tuple[float, Decoded]:
            self._count_waiting()
            turn = time.monotonic()
            decoded = prepare(decode)
            self._metrics.stage(version.model, version.number, "decoding", time.monotonic() - turn)
            return turn - began, decoded

        try:
            decoding = self._decoders.submit(timed, key)
            self._count_waiting()
            waited, decoded = await asyncio.wrap_future(decoding)
            picture = _Picture(loaded, decoded.question)
            picture.since -= waited
            return decoded, await asyncio.wrap_future(self._submit(picture))
        finally:
            self._count_waiting()

    def close(self) -> None:
        """Ends the threads, each after what it is doing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _submit(self, picture: _Picture) -> "Future[Outputs]":
        picture.outputs.add_done_callback(self._forget)
        with self._changed:
            self._waiting.append(picture)
            if len(self._threads) < self._max_running:
                self._threads.append(threading.Thread(target=self._run, name="pictures", daemon=True))
                self._threads[-1].start()
            self._changed.notify()
        self._count_waiting()
        return picture.outputs

    def _forget(self, outputs: "Future[Outputs]") -> None:
        if outputs.cancelled():
            with self._changed:
                self._waiting = [one for one in self._waiting if one.outputs is not outputs]

    def _count_waiting(self) -> None:
        self._metrics.waiting(self._decoders.waiting + len(self._waiting))

    def _run(self) -> None:
        """The loop of every thread."""
        while (work := self._next()) is not None:
            self._show(*work)
            del work  # it references a version, which may be freed when its last answer is out

    def _next(self) -> tuple[Graph, list[_Picture]] | None:
        """Waits for the next batch, and chooses the graph that it is shown to; None once this is closed."""
        with self._changed:
            while not self._closed:
                if batch := [one for one in self._waiting if one.goes_with(self._waiting[0])][
                    : self._max_batch
                ]:
                    self._waiting = [one for one in self._waiting if one not in batch]
                    loaded = batch[0].loaded
                    alone = (
                        len(batch) == 1 and not self._running and not self._waiting and self._decoders.idle
                    )
                    self._running += 1
                    lone = loaded.lone_graph if alone or self._max_running == 1 else None
                    return lone or loaded.graph, batch
                self._changed.wait()
        return None

    def _show(self, graph: Graph, batch: Sequence[_Picture]) -> None:
        self._count_waiting()
        pictures = [one for one in batch if one.outputs.set_running_or_notify_cancel()]
        began = time.monotonic()
        try:
            outputs = run_batch(graph, [one.question for one in pictures])
        except Exception as error:  # noqa: BLE001 - raised again for each request
            outputs = [error] * len(pictures)
        seconds = time.monotonic() - began
        with self._changed:
            self._running -= 1
        self._metrics.batch(len(pictures))
        for one, found in zip(pictures, outputs, strict=True):
            version = one.loaded.version
            self._metrics.stage(version.model, version.number, "waiting", began - one.since)
            self._metrics.stage(version.model, version.number, "model", seconds)
            if isinstance(found, Exception):
                one.outputs.set_exception(found)
            else:
                one.outputs.set_result(found)


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
