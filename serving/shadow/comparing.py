"""Shows a share of the pictures to the candidate as well, when their answers have been sent.

The candidate is whatever `shadow_alias` points to; it is loaded and replaced as production is, and what does
not load is a trouble of its own. A picture is chosen by the hash of its request's id. Nothing waits for a
comparison: a few wait at most, one thread of low priority works on them, and what comes while more wait,
or while pictures wait for production's model, is left out and counted.

What waits holds the decoded picture; its bytes only where the candidate decodes it by another rule. Nothing
is kept when it has been compared.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.graph import Graph
from registry.bundle.picture import PictureRule
from serving.live import REGISTRY, Live, LoadedRelease, Source
from serving.loading import Loader
from serving.metrics import Metrics
from serving.parameters import Parameters
from serving.predictor import Decoded, LoadedVersion, answer, decode
from serving.priority import yield_to_others
from serving.routing import Route, choose
from serving.schemas import Diagnosis
from serving.settings import ServeSettings
from serving.shadow.counting import ShadowCounters

log = logging.getLogger("dermfed.serve")

WAITING: Final = 8
"""How many pictures wait to be compared, at most."""

TIMED: Final = 4
"""One comparison in so many is also timed, for which each model runs once more."""

_LOOK_SECONDS: Final = 0.2  # how soon the thread notices that it has to end


@dataclass(frozen=True)
class Answered:
    """One picture that production has answered for.

    Attributes:
        loaded: the version that answered.
        subgroup: of the declared tone, as figures call it.
        parameters: what the request declared.
        content: the bytes that were sent.
        decoded: what the version was shown.
        diagnosis: its answer.
    """

    loaded: LoadedVersion
    subgroup: str
    parameters: Parameters
    content: bytes
    decoded: Decoded
    diagnosis: Diagnosis


@dataclass(frozen=True)
class _Waiting:
    """A picture before it is compared: decoded, or to be decoded by the candidate's own rule."""

    answered_by: LoadedVersion
    candidate: LoadedVersion
    route: Route
    subgroup: str
    parameters: Parameters
    diagnosis: Diagnosis
    picture: Decoded | bytes


class Shadow:
    """Compares a candidate with production in a thread of its own."""

    def __init__(
        self,
        source: Source,
        settings: ServeSettings,
        metrics: Metrics,
        counters: ShadowCounters,
        loader: Loader,
    ) -> None:
        """Returns at once; the candidate is loaded by the thread.

        Args:
            source: the registry.
            settings: whose releases are candidates, and what share of pictures they are shown.
            metrics: is told of the candidate's releases, and knows how many pictures wait for production.
            counters: are told what comes of the comparisons.
            loader: production's, so that a candidate that becomes production is not loaded twice.
        """
        self._settings = settings
        self._metrics = metrics
        self._counters = counters
        self._live: Live | None = None
        self._waiting: Queue[_Waiting] = Queue(WAITING)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(source, loader), name="shadow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; what waits is forgotten."""
        self._stop.set()
        self._thread.join()

    @property
    def candidates(self) -> Mapping[str, LoadedRelease]:
        """What is shown pictures beside production, by model."""
        return self._live.state.releases if self._live else {}

    def troubles(self) -> list[str]:
        """What keeps a candidate from being shown pictures; of the registry itself production tells."""
        found = self._live.state.troubles if self._live else {}
        return [f"shadow: {trouble}" for model, trouble in found.items() if model != REGISTRY]

    def offer(self, answered: Answered) -> None:
        """Has the picture compared later, if it is one of the share and nothing is in the way."""
        if not chosen(answered.diagnosis.id, self._settings.shadow_share):
            return
        release = self.candidates.get(answered.loaded.version.model)
        if release is None:
            return
        parameters = answered.parameters
        routed = choose(release.subgroups, parameters.skin_tone, parameters.skin_tone_scale)
        candidate = release.versions[routed.subgroup]
        if candidate.version.digest == answered.loaded.version.digest:
            return  # it is in production
        same = same_pixels(candidate.manifest.picture, answered.loaded.manifest.picture)
        waiting = _Waiting(
            answered.loaded,
            candidate,
            routed.route,
            answered.subgroup,
            parameters,
            answered.diagnosis,
            answered.decoded if same else answered.content,
        )
        if self._metrics.are_waiting or not self._put(waiting):
            self._counters.left_out(answered.loaded.version.model, "busy")

    def _put(self, waiting: _Waiting) -> bool:
        try:
            self._waiting.put_nowait(waiting)
        except Full:
            return False
        return True

    def _run(self, source: Source, loader: Loader) -> None:
        yield_to_others()
        live = Live(source, self._settings, self._metrics, alias=self._settings.shadow_alias, loader=loader)
        self._live = live
        number = 0
        try:
            while not self._stop.is_set():
                try:
                    waiting = self._waiting.get(timeout=_LOOK_SECONDS)
                except Empty:
                    continue
                try:
                    self._compare(waiting, timed=number % TIMED == 0)
                except Exception as error:  # noqa: BLE001
                    # Nobody waits for it; whatever it is, production has answered and goes on.
                    self._counters.left_out(waiting.answered_by.version.model, "failed")
                    log.warning("the candidate failed on a picture: %s", error)
                number += 1
                del waiting  # until the next one comes, neither its picture nor its models are held
        finally:
            self._live = None
            live.close()

    def _compare(self, waiting: _Waiting, *, timed: bool) -> None:
        candidate, picture = waiting.candidate, waiting.picture
        decoded = (
            decode(candidate, picture, self._settings.max_pixels) if isinstance(picture, bytes) else picture
        )
        outputs = candidate.graph.run(decoded.pixels[None])
        diagnosis = answer(
            candidate,
            decoded,
            outputs,
            waiting.parameters,
            waiting.route,
            request_id=waiting.diagnosis.id,
        )
        self._counters.compared(waiting.subgroup, waiting.diagnosis, diagnosis)
        if timed and not isinstance(picture, bytes):
            # Both alike: each runs once the other has, on a picture that the caches hold. What the candidate
            # just took is not counted: it would have been the first to see the picture.
            graphs = waiting.answered_by.graph, candidate.graph
            production, its_own = (taken(graph, decoded.pixels[None]) for graph in graphs)
            self._counters.timed(waiting.subgroup, waiting.diagnosis, diagnosis, (production, its_own))


def taken(graph: Graph, images: NDArray[np.uint8]) -> float:
    """How long a model takes for a picture; seconds."""
    began = time.monotonic()
    graph.run(images)
    return time.monotonic() - began


def chosen(request_id: str, share: float) -> bool:
    """Whether a request is one of the share; the same in every worker."""
    place = int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:8])
    return place < share * 2**64


def same_pixels(one: PictureRule, other: PictureRule) -> bool:
    """Whether two rules give the same pixels; how large a picture each accepts is another matter."""
    return one.model_copy(update={"max_pixels": other.max_pixels}) == other
