"""The threads that work on pictures: they decode them, and show them to their models, several together.

Nobody waits for a batch to fill. While all threads are busy, pictures gather; a thread that becomes free
takes the decoded picture that has waited longest, and with it up to `max_batch` in all of those that wait for
the same version; where none is waiting, the next picture is decoded. More threads than cores would only get
in each other's way, and what is nearly done comes first. A picture that comes while nothing runs goes at
once, and may have several threads to itself.

One picture never harms another: where a batch fails, whatever it is about (the run, an answer that is not
finite or of the wrong shape), each of its pictures is shown alone, and fails alone. A picture whose
request was given up is not shown at all. A version is held by its pictures only: the one that was
replaced goes with the last of them.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError
from registry.bundle.graph import Graph, Outputs
from serving.metrics import Metrics
from serving.predictor import LoadedVersion

log = logging.getLogger("dermfed.serve")

T = TypeVar("T")


@dataclass(eq=False)
class Waiting:
    """A picture before its model's run; `outputs` is there after it."""

    loaded: LoadedVersion
    pixels: NDArray[np.uint8]
    outputs: "asyncio.Future[Outputs]"
    since: float = field(default_factory=time.monotonic)


class Batching:
    """Runs the models of all versions, for one event loop."""

    def __init__(self, at_once: int, max_batch: int, metrics: Metrics) -> None:
        """Nothing runs yet.

        Args:
            at_once: how many threads work at most at the same time, over all versions.
            max_batch: how many pictures one run is shown at most.
            metrics: is told how many wait, and how many were shown together.
        """
        self._at_once = at_once
        self._max_batch = max_batch
        self._metrics = metrics
        self._waiting: deque[Waiting] = deque()
        self._undecoded: deque[asyncio.Future[None]] = deque()
        self._decoding = 0
        self._running: set[asyncio.Task[None]] = set()
        self._threads = anyio.CapacityLimiter(at_once)

    async def decode(self, work: Callable[[], T]) -> T:
        """What `work` gives, done in a thread when one is free and no decoded picture is waiting for it."""
        turn = asyncio.get_running_loop().create_future()
        self._undecoded.append(turn)
        self._start()
        try:
            await turn
        except BaseException:
            if not turn.cancelled():  # its turn had come
                self._decoded()
            elif turn in self._undecoded:
                self._undecoded.remove(turn)
            raise
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._decoded()

    async def run(self, loaded: LoadedVersion, pixels: NDArray[np.uint8]) -> Outputs:
        """What the version's model answers for one picture, as a batch of one.

        Raises:
            GraphError: the picture is not what the model takes, or its answer is not one.
        """
        one = Waiting(loaded, pixels, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._start()
        try:
            return await one.outputs
        finally:
            if one in self._waiting:  # given up before its turn
                self._waiting.remove(one)
                self._metrics.waiting(len(self._waiting))

    def _start(self) -> None:
        """Gives every thread that is free something to do."""
        while self._waiting and self._busy < self._at_once:
            batch = self._take()
            graph = batch[0].loaded.graph
            if not self._busy and not self._waiting and not self._undecoded and len(batch) == 1:
                graph = batch[0].loaded.wide or graph
            task = asyncio.get_running_loop().create_task(self._show(graph, batch))
            self._running.add(task)
        while self._undecoded and self._busy < self._at_once:
            turn = self._undecoded.popleft()
            if not turn.done():
                self._decoding += 1
                turn.set_result(None)
        self._metrics.waiting(len(self._waiting))

    @property
    def _busy(self) -> int:
        return len(self._running) + self._decoding

    def _decoded(self) -> None:
        self._decoding -= 1
        self._start()

    def _take(self) -> list[Waiting]:
        """Whoever has waited longest, and others that may be shown with it."""
        loaded = self._waiting[0].loaded
        batch = [one for one in self._waiting if one.loaded is loaded][: self._max_batch]
        for one in batch:
            self._waiting.remove(one)
        return batch

    async def _show(self, graph: Graph, batch: list[Waiting]) -> None:
        began = time.monotonic()
        try:
            answers = await anyio.to_thread.run_sync(
                show, graph, [one.pixels for one in batch], limiter=self._threads
            )
        except BaseException:
            for one in batch:
                one.outputs.cancel()
            raise
        finally:
            task = asyncio.current_task()
            if task is not None:
                self._running.discard(task)
            self._start()
        ended = time.monotonic()
        self._metrics.batch(len(batch))
        for one, outputs in zip(batch, answers, strict=True):
            version = one.loaded.version
            self._metrics.stage(version.model, version.number, "waiting", began - one.since)
            self._metrics.stage(version.model, version.number, "model", ended - began)
            if one.outputs.done():
                continue  # nobody waits for it any more
            if isinstance(outputs, Exception):
                one.outputs.set_exception(outputs)
            else:
                one.outputs.set_result(outputs)


def show(graph: Graph, pictures: Sequence[NDArray[np.uint8]]) -> list[Outputs | Exception]:
    """What the graph answers for each picture, or what was in the way of it alone."""
    if len(pictures) > 1:
        try:
            return list(rows(graph, np.stack(pictures)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it may be one picture's alone
            log.warning("%d pictures shown together failed (%s); each is shown alone", len(pictures), error)
    return [show_alone(graph, one) for one in pictures]


def show_alone(graph: Graph, pixels: NDArray[np.uint8]) -> Outputs | Exception:
    """What the graph answers for one picture, or why it does not."""
    try:
        return rows(graph, pixels[None])[0]
    except Exception as error:  # noqa: BLE001 - raised again for whoever waits for it
        return error


def rows(graph: Graph, images: NDArray[np.uint8]) -> list[Outputs]:
    """The graph's answers for `(batch, size, size, 3)`, each as a batch of one.

    Raises:
        GraphError: the graph cannot run, or its answers are not finite or not one for each picture.
    """
    outputs = graph.run(images)
    expected = {
        "probabilities": (len(images), graph.num_classes),
        "logits": (len(images), graph.num_classes),
        "embedding": (len(images), graph.num_features),
    }
    for name, shape in expected.items():
        if (found := getattr(outputs, name).shape) != shape:
            raise GraphError(
                f"the graph answered {name} of shape {found} for {len(images)} pictures, not {shape}; "
                "the model is broken: export it again"
            )
    return [
        Outputs(*(part[row : row + 1] for part in (outputs.probabilities, outputs.logits, outputs.embedding)))
        for row in range(len(images))
    ]
