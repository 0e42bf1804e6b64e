"""What `production` points to, loaded and kept up to date.

A thread asks the registry every half second what is current. A new release is loaded whole beside the
old one, by a thread of its own, and put in its place in one step, so that a request sees one release from
beginning to end; the old one lives until its last request has ended. A release that does not load leaves
the old one serving, and says so; where trusted keys are set, so does one with a version that none of them
has signed.

A diagnosis may only come from a release that was current at some moment between two seconds before
the request began and its end. So each state carries the moment when the registry last confirmed it,
and a request that finds the confirmation too old waits for the next one instead of answering with what
may have been replaced. Only the model whose release is being loaded waits: others are confirmed meanwhile,
and so is the old release as soon as the registry points back to it.
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from registry.bundle.errors import BundleError
from registry.errors import RegistryError
from registry.records import ApiKey, Release
from registry.signing.trust import trust_in
from serving.loading import LoadedRelease, Loader, Source
from serving.metrics import Metrics
from serving.settings import ServeSettings

__all__ = ["REGISTRY", "Live", "LoadedRelease", "Source", "State"]

log = logging.getLogger("dermfed.serve")

REGISTRY = ""
"""What the registry is called among the troubles: no model has this name."""

RETRY_SECONDS = 5.0
"""How long a release that did not load is left alone before it is tried again."""

SILENT_SECONDS = 10.0
"""How long the registry may take to answer before it counts as one that cannot be read."""

_CLOSING_SECONDS = 10.0
"""How long closing waits for each release that is being loaded."""


@dataclass(frozen=True)
class State:
    """What is served, seen from one moment.

    Attributes:
        releases: by model.
        keys: the API keys of the service; None while the registry could not tell.
        troubles: what could not be read or loaded, by model; `REGISTRY` for the registry itself.
        confirmed: when the registry was asked for this, on the monotonic clock; seconds.
        loading: the models of which a newer release is being loaded, each with the moment when the release
            in `releases` was last confirmed; minus infinity where there is none yet.
    """

    releases: Mapping[str, LoadedRelease] = field(default_factory=dict)
    keys: tuple[ApiKey, ...] | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)
    confirmed: float = float("-inf")
    loading: Mapping[str, float] = field(default_factory=dict)

    def confirmed_for(self, model: str | None = None) -> float:
        """When the release of a model was last confirmed as current; of the oldest, where none is named."""
        if model is None:
            return min((self.confirmed, *self.loading.values()))
        return self.loading.get(model, self.confirmed)


class Live:
    """Keeps a `State` up to date in a thread of its own."""

    def __init__(
        self,
        source: Source,
        settings: ServeSettings,
        metrics: Metrics | None = None,
        *,
        alias: str | None = None,
        loader: Loader | None = None,
    ) -> None:
        """Reads the registry for the first time; what cannot be read is in the state's troubles.

        Args:
            source: the registry.
            settings: what an operator set.
            metrics: who is told of releases.
            alias: whose releases to follow; by default the one of the settings.
            loader: what loads them, where it is shared with what follows another alias.

        Raises:
            KeyUnusable: a file of trusted keys holds none.
        """
        self.alias = alias or settings.alias
        self.loader = loader or Loader(source, trust_in(settings.trusted_keys), settings.lone_threads)
        self._source = source
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._state = State()
        self._asked: float | None = None  # since when the registry has been thinking
        self._answered = float("-inf")  # when it was last asked and did answer
        self._shared = threading.Lock()  # for what the loading thread leaves behind
        self._ready: dict[int, LoadedRelease] = {}  # loaded, and not put in place yet; by the release's id
        self._failed: dict[int, tuple[float, str]] = {}  # when a release failed to load and why, by its id
        self._stop, self._look_again = threading.Event(), threading.Event()
        self._loading: dict[int, threading.Thread] = {}  # by the release's id
        self.refresh()
        self._thread = threading.Thread(target=self._follow, name="registry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the threads."""
        self._stop.set()
        self._look_again.set()
        self._thread.join()
        for loading in self._loading.values():
            loading.join(_CLOSING_SECONDS)

    @property
    def state(self) -> State:
        """What is served now."""
        state = self._state
        if self._silent_for() <= SILENT_SECONDS or REGISTRY in state.troubles:
            return state
        silent = f"the registry cannot be read: it has not answered for {self._silent_for():.0f} s"
        return replace(state, troubles={**state.troubles, REGISTRY: silent})

    def state_for(self, began: float, model: str | None = None) -> State | None:
        """The state, if it was confirmed recently enough for a request that began then (monotonic clock).

        Args:
            began: when the request began.
            model: the model that it asks; all of them have to be current where it names none.
        """
        state = self.state
        recent = state.confirmed_for(model) >= began - self._settings.max_age_seconds
        # Nobody can say what is current; what was goes on serving, as if asking had failed.
        return state if recent or self._silent_for() > SILENT_SECONDS else None

    def refresh(self) -> None:
        """Asks the registry once, loads what is new, and puts it in place."""
        if wanted := self.look():
            for release in wanted:
                self.load(release)
            self.look()

    def look(self) -> list[Release]:
        """Asks the registry once and puts in place what is loaded; returns what has yet to be loaded."""
        self._asked = asked = time.monotonic()
        before = self._state
        try:
            current = self._source.current(self.alias)
            keys = self._source.keys()
        except Exception as error:  # noqa: BLE001 - whatever it is, and however long it took
            # Nobody can say what is current; what was goes on serving, and /readyz tells.
            self._say(REGISTRY, error, before.troubles)
            troubles = {**before.troubles, REGISTRY: f"the registry cannot be read: {error}"}
            # A release that was already known to be replaced is not confirmed by a moment's failure.
            lately = asked - self._answered < SILENT_SECONDS
            loading = before.loading if lately else {}
            self._put(replace(before, troubles=troubles, confirmed=time.monotonic(), loading=loading))
            return []
        finally:
            self._asked = None
        self._answered = asked
        with self._shared:
            ready, failed = self._taken(current)
        releases: dict[str, LoadedRelease] = {}
        troubles, loading = {}, {}
        fresh, again = [], []
        for model, release in current.items():
            old = before.releases.get(model)
            if old and old.release.id == release.id:
                releases[model] = old
            elif release.id in ready:
                releases[model] = ready[release.id]
                log.info("serving release %d of %s: versions %s", release.id, model, _numbers(release))
            else:
                if old:
                    releases[model] = old
                if release.id in failed:
                    since, troubles[model] = failed[release.id]
                    again += [release] if asked - since >= RETRY_SECONDS else []
                else:
                    loading[model] = before.confirmed_for(model) if old else float("-inf")
                    fresh.append(release)
        self._put(State(releases, keys, troubles, asked, loading))
        return fresh + again

    def load(self, release: Release) -> None:
        """Loads a release; what comes of it is found by the next look."""
        began = time.monotonic()
        try:
            loaded = self.loader.load(release)
        except Exception as error:  # noqa: BLE001 - whatever it is, the old release goes on serving
            trouble = f"release {release.id} of {release.model} cannot be served: {error}"
            self._say(release.model, error, self._state.troubles)
            with self._shared:
                self._failed[release.id] = (time.monotonic(), trouble)
            self._metrics.not_loaded(self.alias, release.model)
            return
        with self._shared:
            self._failed.pop(release.id, None)
            self._ready[release.id] = loaded
        self._metrics.loaded(self.alias, release.model, time.monotonic() - began)

    def _taken(
        self, current: Mapping[str, Release]
    ) -> tuple[dict[int, LoadedRelease], dict[int, tuple[float, str]]]:
        """What has been loaded and what failed, of what is current; the rest is forgotten."""
        ids = {release.id for release in current.values()}
        ready = {id_: loaded for id_, loaded in self._ready.items() if id_ in ids}
        self._ready = {}
        self._failed = {id_: failed for id_, failed in self._failed.items() if id_ in ids}
        return ready, dict(self._failed)

    def _put(self, state: State) -> None:
        self._state = state
        serving = {model: loaded.release.id for model, loaded in state.releases.items()}
        self._metrics.serving(self.alias, serving, state.troubles)

    def _silent_for(self) -> float:
        """How long the registry has not answered; seconds."""
        asked = self._asked
        return 0.0 if asked is None else time.monotonic() - asked

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._look_again.wait(self._settings.poll_seconds)
            self._look_again.clear()
            if self._stop.is_set():
                return
            try:
                wanted = self.look()
            except Exception:
                # Whatever it is, the thread has to live: the next look may succeed.
                log.exception("the registry could not be followed")
                continue
            self._loading = {id_: thread for id_, thread in self._loading.items() if thread.is_alive()}
            for release in wanted:
                if release.id not in self._loading:
                    thread = threading.Thread(target=self._load, args=(release,), name="loading", daemon=True)
                    self._loading[release.id] = thread
                    thread.start()

    def _load(self, release: Release) -> None:
        self.load(release)
        self._look_again.set()

    @staticmethod
    def _say(name: str, error: Exception, known: Mapping[str, str]) -> None:
        """Log a trouble once, and not twice a second; one that nobody foresaw with where it arose."""
        if name in known and str(error) in known[name]:
            return
        foreseen = isinstance(error, (RegistryError, BundleError, OSError))
        log.error("%s: %s", name or "the registry", error, exc_info=None if foreseen else error)


def _numbers(release: Release) -> str:
    return ", ".join(f"{version.number} ({version.subgroup.name})" for version in release.versions)
