"""The dynamic batcher: runs the models on batches of decoded pictures.

The thread that has decoded a picture runs what waits, unless as many threads as may do already: the picture
that has waited longest, together with up to `max_batch` in all that wait for the same version (of cases,
those of as many pictures). Where `max_batch` is more than one, one batch runs at a time: what is decoded
meanwhile is the next batch as soon as that one ran. Nothing waits for pictures that are yet to come. What is
decoded next is up to `serving.decoding.decoders`, which takes turns between API keys.

How many requests wait is bounded by `serving.admission`, which also ends those that take too long:
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
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.diagnose import Question, ask
from registry.bundle.errors import GraphError
from registry.bundle.model import Graph, Outputs
from serving.decoding.decoders import Decoders
from serving.decoding.messages import Decode
from serving.inference.predictor import Decoded, LoadedVersion
from serving.metrics import Metrics
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

GPU_BATCH: Final = 32
"""Pictures that a model is shown at once on a GPU, unless a setting says otherwise."""

Answer = tuple[Decoded, Outputs]


@dataclass(eq=False)
class _Picture:
    """A picture, or a case, on its way.

    Attributes:
        loaded: the version that it is for.
        answer: the decoded picture, and the model's outputs as a batch of one.
        since: when it began to wait, for its decoder or its model; on the monotonic clock.
        waited: seconds that it waited for its decoder.
        decoded: it decoded; None before.
    """

    loaded: LoadedVersion
    answer: "Future[Answer]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    decoded: Decoded | None = None

    @property
    def question(self) -> Question:
        """What the model is shown."""
        assert self.decoded is not None
        return self.decoded.question

    def goes_with(self, other: "_Picture") -> bool:
        """Whether two may be run together: of one version, and of as many pictures each.

        A case with fewer pictures would get empty slots, which cost as much as pictures.
        """
        as_many = len(self.question.images) == len(other.question.images)
        return self.loaded is other.loaded and as_many


class Batcher:
    """Runs the models of all versions on decoded pictures, batching those of one version."""

    def __init__(self, settings: ServeSettings, metrics: Metrics, decoders: Decoders) -> None:
        """Starts nothing.

        Args:
            settings: how many models run at once, and how many pictures a model is shown at once.
            metrics: where queue length, batch sizes and the time of each stage are counted.
            decoders: decode the pictures.
        """
        self._max_batch = settings.max_batch or (1 if settings.providers == "cpu" else GPU_BATCH)
        self._max_running = 1 if self._max_batch > 1 else settings.threads
        self._metrics = metrics
        self._decoders = decoders
        self._waiting: list[_Picture] = []
        self._running = 0
        self._lock = threading.Lock()

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
        picture = _Picture(loaded)
        picture.answer.add_done_callback(self._forget)
        decoding = self._decoders.submit(partial(self._decode, picture, prepare), key)
        decoding.add_done_callback(partial(self._decoded, picture))
        self._count_waiting()
        try:
            return await asyncio.wrap_future(picture.answer)
        finally:
            decoding.cancel()  # where it has not begun, it was given up
            self._count_waiting()

    def _decode(self, picture: _Picture, prepare: Callable[[Decode], Decoded], decode: Decode) -> None:
        self._count_waiting()
        began = time.monotonic()
        picture.waited = began - picture.since
        picture.decoded = prepare(decode)
        picture.since = time.monotonic()
        self._stage(picture.loaded, "decoding", picture.since - began)

    def _decoded(self, picture: _Picture, decoding: "Future[None]") -> None:
        """Runs models, in the thread that has decoded the picture."""
        if decoding.cancelled() or picture.answer.cancelled():
            return
        if error := decoding.exception():
            _deliver(picture, error)
            return
        with self._lock:
            self._waiting.append(picture)
        del picture  # it references a version, which may be freed when its last answer is out
        while batch := self._next():
            self._show(*batch)
            del batch

    def _forget(self, answer: "Future[Answer]") -> None:
        if answer.cancelled():
            with self._lock:
                self._waiting = [one for one in self._waiting if one.answer is not answer]

    def _count_waiting(self) -> None:
        self._metrics.waiting(self._decoders.waiting + len(self._waiting))

    def _stage(self, loaded: LoadedVersion, stage: str, seconds: float) -> None:
        version = loaded.version
        self._metrics.stage_seconds.labels(version.model, str(version.number), stage).observe(seconds)

    def _next(self) -> tuple[Graph, list[_Picture]] | None:
        """The next batch and its graph; None where there is none, or as many run as may."""
        with self._lock:
            if not self._waiting or self._running == self._max_running:
                return None
            batch = [one for one in self._waiting if one.goes_with(self._waiting[0])][: self._max_batch]
            self._waiting = [one for one in self._waiting if one not in batch]
            alone = len(batch) == 1 and not self._running and not self._waiting and self._decoders.idle
            self._running += 1
        loaded = batch[0].loaded
        lone = loaded.lone_graph if alone or self._max_running == 1 else None
        return lone or loaded.graph, batch

    def _show(self, graph: Graph, batch: Sequence[_Picture]) -> None:
        self._count_waiting()
        began = time.monotonic()
        try:
            found = run_batch(graph, [one.question for one in batch])
        except Exception as error:  # noqa: BLE001 - raised again for each request
            found = [error] * len(batch)
        seconds = time.monotonic() - began
        with self._lock:
            self._running -= 1
        self._metrics.batches.observe(len(batch))
        for one, outputs in zip(batch, found, strict=True):
            self._stage(one.loaded, "waiting", one.waited + began - one.since)
            self._stage(one.loaded, "model", seconds)
            _deliver(one, outputs)


def _deliver(picture: _Picture, outputs: Outputs | BaseException) -> None:
    if not picture.answer.set_running_or_notify_cancel():
        return  # it was given up
    if isinstance(outputs, BaseException):
        picture.answer.set_exception(outputs)
    else:
        assert picture.decoded is not None
        picture.answer.set_result((picture.decoded, outputs))


def run_batch(graph: Graph, questions: Sequence[Question]) -> list[Outputs | Exception]:
    """Runs the graph on a batch of questions; each gets its outputs, or the error that it raises alone."""
    try:
        return list(run_and_split(graph, questions))
    except Exception as error:  # noqa: BLE001 - raised again for whoever waits for it
        if len(questions) == 1:
            return [error]
        # Whatever it is, it may be one question's alone.
        log.warning("%d pictures shown together failed (%s); each is shown alone", len(questions), error)
        return [run_batch(graph, [one])[0] for one in questions]


def run_and_split(graph: Graph, questions: Sequence[Question]) -> list[Outputs]:
    """Runs the graph on a batch of requests, and splits its outputs into batches of one.

    Only requests that asked for a map get one; a case's map has only the slots that the case fills.

    Raises:
        GraphError: the graph cannot run, or its outputs are not finite or not one for each request.
    """
    outputs = ask(graph, questions)
    widths = {
        "probabilities": graph.num_classes,
        "logits": graph.num_classes,
        "embedding": graph.num_features,
    }
    for name, width in widths.items():
        shape = len(questions), width
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
