"""What `production` points to, loaded and kept up to date.

A thread asks the registry every half second what is current. A new release is loaded whole beside the
old one and put in its place in one step, so that a request sees one release from beginning to end; the
old one lives until its last request has ended. A release that does not load leaves the old one
serving, and says so; where trusted keys are set, so does one with a version that none of them has signed.

A diagnosis may only come from a release that was current at some moment between two seconds before
the request began and its end. So each state carries the moment when the registry last confirmed it,
and a request that finds the confirmation too old waits for the next one (the thread is loading then)
instead of answering with what may have been replaced.
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from registry.bundle.errors import BundleError
from registry.bundle.folder import Bundle
from registry.bundle.schema import Subgroup
from registry.errors import RegistryError
from registry.records import ApiKey, Release, Version
from registry.signing.trust import trust_in
from serving.predictor import LoadedVersion
from serving.settings import ServeSettings

if TYPE_CHECKING:
    from registry.signing.pem import Trust

log = logging.getLogger("dermfed.serve")

REGISTRY = ""
"""What the registry is called among the troubles: no model has this name."""

RETRY_SECONDS = 5.0
"""How long a release that did not load is left alone before it is tried again."""


class Source(Protocol):
    """What the service needs of the registry."""

    def current(self, alias: str = ...) -> dict[str, Release]:
        """Every model's release under the alias."""
        ...

    def bundle(self, version: Version) -> Bundle:
        """A version's bundle, verified."""
        ...

    def keys(self) -> tuple[ApiKey, ...]:
        """All API keys."""
        ...

    def require_signature(self, version: Version, trust: "Trust") -> str:
        """Who among the trusted has signed the version; raises if none of them has."""
        ...


@dataclass(frozen=True)
class LoadedRelease:
    """A release with all its versions ready to answer, by subgroup."""

    release: Release
    versions: Mapping[str, LoadedVersion]

    @property
    def subgroups(self) -> dict[str, Subgroup]:
        """Whom each version is for."""
        return {name: loaded.version.subgroup for name, loaded in self.versions.items()}


@dataclass(frozen=True)
class State:
    """What is served, seen from one moment.

    Attributes:
        releases: by model.
        keys: the API keys of the service; None while the registry could not tell.
        troubles: what could not be read or loaded, by model; `REGISTRY` for the registry itself.
        confirmed: when the registry was asked for this, on the monotonic clock; seconds.
    """

    releases: Mapping[str, LoadedRelease] = field(default_factory=dict)
    keys: tuple[ApiKey, ...] | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)
    confirmed: float = float("-inf")


class Live:
    """Keeps a `State` up to date in a thread of its own."""

    def __init__(self, source: Source, settings: ServeSettings) -> None:
        """Reads the registry for the first time; what cannot be read is in the state's troubles.

        Raises:
            KeyUnusable: a file of trusted keys holds none.
        """
        self._source = source
        self._settings = settings
        self._trust = trust_in(settings.trusted_keys)
        self._stop = threading.Event()
        self._failed: dict[int, tuple[float, str]] = {}  # when a release failed to load and why, by its id
        self.state = State()
        self.refresh()
        self._thread = threading.Thread(target=self._follow, name="registry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join()

    def state_for(self, began: float) -> State | None:
        """The state, if it was confirmed recently enough for a request that began then (monotonic clock)."""
        state = self.state
        return state if state.confirmed >= began - self._settings.max_age_seconds else None

    def refresh(self) -> None:
        """Asks the registry once, loads what is new, and puts the new state in place."""
        asked = time.monotonic()
        try:
            current = self._source.current(self._settings.alias)
            keys = self._source.keys()
        except Exception as error:  # noqa: BLE001 - whatever it is, and however long it took
            # Nobody can say what is current; what was goes on serving, and /readyz tells.
            self._say(REGISTRY, error, self.state.troubles)
            troubles = {**self.state.troubles, REGISTRY: f"the registry cannot be read: {error}"}
            self.state = replace(self.state, troubles=troubles, confirmed=time.monotonic())
            return
        # Loading takes its time; a key that was made or revoked counts from now on.
        self.state = replace(self.state, keys=keys)
        self._failed = {
            release.id: self._failed[release.id] for release in current.values() if release.id in self._failed
        }
        releases: dict[str, LoadedRelease] = {}
        troubles = {}
        for model, release in current.items():
            before = self.state.releases.get(model)
            if before and before.release.id == release.id:
                releases[model] = before
                continue
            failed, trouble = self._failed.get(release.id, (float("-inf"), ""))
            if asked - failed >= RETRY_SECONDS:
                loaded, trouble = self._try(release, before)
                before = loaded or before
            if trouble:
                troubles[model] = trouble
            if before:
                releases[model] = before
        self.state = State(releases, keys, troubles, asked)

    def _try(self, release: Release, before: LoadedRelease | None) -> tuple[LoadedRelease | None, str]:
        """The loaded release, or what was in the way."""
        try:
            loaded = self._load(release, before)
        except Exception as error:  # noqa: BLE001 - whatever it is, the old release goes on serving
            trouble = f"release {release.id} of {release.model} cannot be served: {error}"
            self._say(release.model, error, self.state.troubles)
            self._failed[release.id] = (time.monotonic(), trouble)
            return None, trouble
        self._failed.pop(release.id, None)
        return loaded, ""

    def _load(self, release: Release, before: LoadedRelease | None) -> LoadedRelease:
        """The release with its versions loaded; those that were serving already are taken over."""
        known = {loaded.version.digest: loaded for loaded in before.versions.values()} if before else {}
        versions = {
            version.subgroup.name: known.get(version.digest) or self._load_version(version)
            for version in release.versions
        }
        log.info("serving release %d of %s: versions %s", release.id, release.model, _numbers(release))
        return LoadedRelease(release, versions)

    def _load_version(self, version: Version) -> LoadedVersion:
        """The version ready to answer, if it is signed where that is asked for."""
        if self._trust is not None:
            who = self._source.require_signature(version, self._trust)
            log.info("version %d of %s is signed by %s", version.number, version.model, who)
        return LoadedVersion.of(version, self._source.bundle(version))

    def _follow(self) -> None:
        while not self._stop.wait(self._settings.poll_seconds):
            try:
                self.refresh()
            except Exception:
                # Whatever it is, the thread has to live: the next look may succeed.
                log.exception("the registry could not be followed")

    @staticmethod
    def _say(name: str, error: Exception, known: Mapping[str, str]) -> None:
        """Log a trouble once, and not twice a second; one that nobody foresaw with where it arose."""
        if name in known and str(error) in known[name]:
            return
        foreseen = isinstance(error, (RegistryError, BundleError, OSError))
        log.error("%s: %s", name or "the registry", error, exc_info=None if foreseen else error)


def _numbers(release: Release) -> str:
    return ", ".join(f"{version.number} ({version.subgroup.name})" for version in release.versions)
