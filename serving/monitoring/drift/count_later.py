"""Counts pictures for drift in batches, on a background thread.

The distance from the training pictures takes a tenth of a millisecond of a core for one picture, and little
more for a few dozen at once. Whoever waits for the next answer should not wait for that.
"""

import logging
import threading
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from serving.inference.predictor import LoadedVersion
from serving.monitoring.drift.counting import DriftCounters

log = logging.getLogger("dermfed.serve")

SECONDS: Final = 0.5
"""Seconds that a picture waits at most, where the processor has time for it."""

TOGETHER: Final = 64
"""How many pictures are counted without waiting any longer."""

_MOST = 4096  # with a processor that has no time for minutes, the oldest are forgotten

_Picture = tuple[LoadedVersion, str, NDArray[Any], NDArray[Any]]


class BackgroundDriftCounter:
    """A queue of answered pictures, and the thread that counts them for drift."""

    def __init__(self, counters: DriftCounters) -> None:
        """Starts the thread."""
        self._counters = counters
        self._pictures: deque[_Picture] = deque(maxlen=_MOST)
        self._enough, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="drift", daemon=True)
        self._thread.start()

    def put(
        self, loaded: LoadedVersion, subgroup: str, probabilities: NDArray[Any], embedding: NDArray[Any]
    ) -> None:
        """Queues one picture for counting.

        Args:
            loaded: the version that answered.
            subgroup: of the declared tone.
            probabilities: what the model said, `(classes,)`.
            embedding: of the picture, `(features,)`.
        """
        self._pictures.append((loaded, subgroup, probabilities, embedding))
        if len(self._pictures) >= TOGETHER:
            self._enough.set()

    def close(self) -> None:
        """Counts what waits, and ends the thread."""
        self._stop.set()
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        ending = False
        while not ending:
            self._enough.wait(SECONDS)
            self._enough.clear()
            ending = self._stop.is_set()  # looked at first: what came before it is counted
            while self._pictures:
                self._count([self._pictures.popleft() for _ in range(min(TOGETHER, len(self._pictures)))])

    def _count(self, waiting: list[_Picture]) -> None:
        alike: dict[tuple[int, str], list[_Picture]] = {}
        for one in waiting:
            alike.setdefault((id(one[0]), one[1]), []).append(one)
        lost: list[Exception] = []
        for pictures in alike.values():
            if self._count_or_error(pictures) is not None:  # it may be one picture alone
                lost += filter(None, (self._count_or_error([one]) for one in pictures))
        if lost:
            log.error("pictures that could not be counted for drift: %d", len(lost), exc_info=lost[0])

    def _count_or_error(self, pictures: list[_Picture]) -> Exception | None:
        """Counts these, all of one version and subgroup; on an error none of them, and returns it."""
        loaded, subgroup = pictures[0][:2]
        try:
            probabilities = np.stack([one[2] for one in pictures])
            embeddings = np.stack([one[3] for one in pictures])
            self._counters.count(loaded, subgroup, probabilities, embeddings)
        except Exception as error:  # noqa: BLE001
            # The answers are out; whatever it is, the thread has to live for those to come.
            return error
        return None
