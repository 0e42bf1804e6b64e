"""Canaries in the service: their releases are loaded next to production's, and get their share of requests.

What canaries there are, the poll of production tells in the same moment as what production is, so that a
request sees both as they were together. A thread loads their releases, at most one for a model. Whatever is
in a canary's way, production answers: one that is not loaded, or fails with a picture, takes no answer from
anybody, and says so on /readyz and in metrics. A canary that is mirrored answers nobody: see
`serving.monitoring.shadow`.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import anyio.to_thread

from registry.bundle.errors import BundleError
from registry.bundle.text import shown
from registry.errors import RegistryError
from registry.records import Canary
from serving.metrics.metrics import Metrics
from serving.protocol.parameters import Parameters
from serving.protocol.problems import InvalidParameter, NothingServed, ProblemResponse
from serving.releases.canary_share import is_for, place_of
from serving.releases.current_release import (
    RETRY_SECONDS,
    CurrentRelease,
    LoadedRelease,
    ServedRelease,
)
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

Answered = Literal["canary", "production", "not-loaded", "failed"]
"""By whom a request was answered that a canary might have: production, where it lies beyond the share, or
since the canary was not loaded, or failed."""

_LOOK_SECONDS: Final = 0.1  # how soon a canary of the newest poll is noticed
_LARGE: Final = 2**22  # bytes of a picture that is hashed in a thread: of fewer it takes 2 ms at most
_CLOSING_SECONDS: Final = 10.0


@dataclass(frozen=True)
class _Held:
    """A canary's release, as far as it is loaded.

    Attributes:
        loaded: the release; None where it could not be loaded.
        failed: when loading it failed, on the monotonic clock.
        issue: why it does not answer; empty where it does.
    """

    loaded: LoadedRelease | None
    failed: float = float("-inf")
    issue: str = ""


class CanaryReleases:
    """Holds the releases of canaries, and chooses by which release a request is answered."""

    def __init__(
        self,
        settings: ServeSettings,
        metrics: Metrics,
        current_release: CurrentRelease,
    ) -> None:
        """Loads what there is, and starts the thread.

        Args:
            settings: the alias.
            metrics: where loads and answers are counted.
            current_release: production, which knows what canaries there are.
        """
        self._current = current_release
        self._metrics = metrics
        self._label = f"{settings.alias}/canary"  # no alias has a name with a stroke
        self._held: Mapping[int, _Held] = {}  # by the canary's event
        self._stop = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join(_CLOSING_SECONDS)

    def health_issues(self) -> list[str]:
        """Why canaries do not answer, a sentence each; production does in their place."""
        canaries = self._current.served.canaries
        return [
            f"canary: release {one.release.id} of {model}: {held.issue}"
            for model, one in sorted(canaries.items())
            if (held := self._held.get(one.event)) is not None and held.issue
        ]

    def answering(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        """The canaries that answer now, each with its release, by model."""
        return {model: one for model, one in self._all_ready().items() if not one[0].mirror}

    def mirrored(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        """The canaries that are only compared, each with its release, by model."""
        return {model: one for model, one in self._all_ready().items() if one[0].mirror}

    def _all_ready(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        served = self._current.served
        found = {model: self._ready(served, model) for model in served.canaries}
        return {model: one for model, one in found.items() if one is not None}

    async def choose(
        self,
        served: ServedRelease,
        production: LoadedRelease,
        pictures: Sequence[bytes],
        parameters: Parameters,
    ) -> LoadedRelease:
        """The release by which a request is answered: the canary's, or production's.

        Args:
            served: what is served to this request.
            production: of its model.
            pictures: their bytes; the first decides.
            parameters: what the request declares.
        """
        model = production.release.model
        canary = served.canaries.get(model)
        if canary is None or canary.mirror or canary.beside != production.release.id or not pictures:
            return production
        held = self._held.get(canary.event)
        loaded = None if held is None else held.loaded
        if loaded is None:
            if canary.subgroup is not None:
                return production  # whom it is for, only its bundles tell
        elif not is_for(canary, loaded, parameters):
            return production
        first = pictures[0]
        place = (
            place_of(canary.key, first)
            if len(first) < _LARGE
            else await anyio.to_thread.run_sync(place_of, canary.key, first)
        )
        if place >= canary.share:
            self._count(canary, "production")
        elif held is None or loaded is None:
            self._count(canary, "not-loaded")
        else:
            return loaded
        return production

    def gives_way(self, error: Exception) -> bool:
        """Whether production is asked where a canary has failed with this.

        Not where the picture is at fault or the service is busy: production would say the same.
        """
        return not isinstance(error, ProblemResponse) or isinstance(error, InvalidParameter | NothingServed)

    def answered(self, served: ServedRelease, chosen: LoadedRelease, by: Answered) -> None:
        """Counts an answer of a canary, or that it failed and production answered."""
        if (canary := served.canaries.get(chosen.release.model)) is not None:
            self._count(canary, by)

    def _count(self, canary: Canary, by: Answered) -> None:
        self._metrics.canary_request(canary.release.model, canary.release.id, by)

    def _ready(self, served: ServedRelease, model: str) -> tuple[Canary, LoadedRelease] | None:
        canary, production = served.canaries.get(model), served.releases.get(model)
        if canary is None or production is None or canary.beside != production.release.id:
            return None
        held = self._held.get(canary.event)
        if held is None or held.loaded is None:
            return None
        return canary, held.loaded

    def _run(self) -> None:
        try:
            while not self._stop.wait(_LOOK_SECONDS):
                try:
                    self._look()
                except Exception:
                    # Whatever it is, the thread has to live: the next look may succeed.
                    log.exception("canaries could not be followed")
        finally:
            self._held = {}

    def _look(self) -> None:
        """Loads canaries that are new, and forgets what has ended."""
        served = self._current.served
        before, held = self._held, dict[int, _Held]()
        for model, canary in served.canaries.items():
            held[canary.event] = self._follow(model, canary, before.get(canary.event), before)
        # What ends may be what production is just loading: then it is taken over.
        taken = {event: one for event, one in before.items() if _model_of(one) in served.loading}
        self._held = {**taken, **held}
        self._tell(served)

    def _follow(
        self,
        model: str,
        canary: Canary,
        known: _Held | None,
        before: Mapping[int, _Held],
    ) -> _Held:
        loaded = known.loaded if known else _same(canary, before)
        if loaded is None:
            if known is not None and time.monotonic() - known.failed < RETRY_SECONDS:
                return known
            began = time.monotonic()
            try:
                loaded = self._current.loader.load(canary.release)
            except Exception as error:  # noqa: BLE001 - whatever it is, production goes on
                self._metrics.not_loaded(self._label, model)
                instead = "nothing is compared" if canary.mirror else "production answers in its place"
                issue = f"it cannot be served, and {instead}: {error}"
                if known is None or known.issue != issue:
                    _log(model, issue, error)
                return _Held(None, time.monotonic(), issue)
            self._metrics.loaded(self._label, model, time.monotonic() - began)
            log.info("canary release %d of %s: %s", canary.release.id, model, shown(canary.title))
        return _Held(loaded)

    def _tell(self, served: ServedRelease) -> None:
        """Sets the gauges: which canaries this worker serves, with which share, and which it does not."""
        issues = [m for m, one in served.canaries.items() if self._held[one.event].issue]
        ready = self._all_ready()
        self._metrics.serving(self._label, {m: one.release.id for m, (one, _) in ready.items()}, issues)
        answers = {m: one for m, one in served.canaries.items() if not one.mirror}
        self._metrics.canary_shares({(m, one.release.id): one.share for m, one in answers.items()})


def _log(model: str, issue: str, error: Exception) -> None:
    """Logs why a canary is not served; an error that nobody foresaw with its traceback."""
    foreseen = isinstance(error, RegistryError | BundleError | OSError)
    log.error("the canary of %s: %s", model, shown(issue), exc_info=None if foreseen else error)


def _model_of(held: _Held) -> str | None:
    return None if held.loaded is None else held.loaded.release.model


def _same(canary: Canary, before: Mapping[int, _Held]) -> LoadedRelease | None:
    """The release of a canary whose share has changed alone, which is loaded already."""
    held = (one.loaded for one in before.values() if one.loaded is not None)
    return next((one for one in held if one.release == canary.release), None)
