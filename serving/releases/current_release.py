"""Keeps the release that an alias points to loaded: polls the registry and swaps releases without downtime.

A thread polls the registry every half second for the current release. Another thread loads a new release
completely while the old one serves, and swaps them in one step, so that a request sees one release from
beginning to end; the old one lives until its last request has ended. If a release does not load, the old one
keeps serving and a health issue is reported; where trusted keys are set, so too for a version that none of
them has signed.

A diagnosis may only come from a release that was current at some moment between two seconds before
the request began and its end. So each `ServedRelease` holds the moment when the registry last confirmed it,
and a request that finds the confirmation too old waits for the next one instead of answering with what
may have been replaced. Only the model whose release is being loaded waits: others are confirmed meanwhile,
and so is the old release as soon as the registry points back to it.

A version that was withdrawn is another matter: the poll that learns of it drops the release at once, whether
or not the next one has been loaded, and the model answers 503 until it has. What a withdrawn version was
computing when that happened is not answered either (`may_answer`).

While the registry cannot be read, the loaded releases keep serving. Where it was removed or replaced by
another registry, API keys cannot be verified: after `max_age_seconds` every request is refused until the
right registry is back.

A registry restored from an older backup is served, as the only source of what is current, although it lacks
the changes made since. Two things never come back while the service runs: a version that was withdrawn, and
an API key that was revoked.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from registry.attestation import trust_in
from registry.bundle.errors import BundleError
from registry.bundle.text import shown, shown_name
from registry.errors import DatabaseLost, RegistryError
from registry.records import ApiKey, Canary, Release, SiteStatus, Version
from registry.registry import Registry
from serving.inference.device import Device
from serving.metrics import Metrics
from serving.releases.loading import LoadedRelease, Loader
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

REGISTRY = ""
"""The key of the registry itself among the health issues: no model has this name."""

RETRY_SECONDS = 5.0
"""How long a release that did not load is left alone before it is tried again."""

SILENT_SECONDS = 10.0
"""How long the registry may take to answer before it counts as one that cannot be read."""

WITHDRAWN_SECONDS = 2.0
"""How long after a version was withdrawn an answer of it may still leave."""

LOOK_SECONDS = 3600.0
"""How long the keys of a registry that was lost still let somebody look at what is wrong."""

STOPPED = "{model} was stopped, and nothing answers in its place until somebody promotes or goes back"
WITHDRAWN = "the version of {model} that answered was withdrawn, and what takes its place is not loaded yet"

_CLOSING_SECONDS = 10.0
"""How long closing waits for each release that is being loaded."""


@dataclass(frozen=True)
class ServedRelease:
    """The releases served at one moment: a snapshot that a request keeps from beginning to end.

    Attributes:
        releases: by model.
        keys: the API keys of the service; None until the registry has been read.
        health_issues: what could not be read or loaded, by model; `REGISTRY` for the registry itself.
        confirmed: when the registry was asked for this, on the monotonic clock; seconds.
        loading: the models of which a newer release is being loaded, each with the moment when the release
            in `releases` was last confirmed; minus infinity where there is none yet.
        silenced: why models that were served have no release, by model, in a sentence for callers: the alias
            was stopped, or a version was withdrawn and what takes its place is not loaded yet.
        withdrawn: the model and the bundle's digest of every version that was withdrawn.
        lost: since when the registry is not there, or another's, on the monotonic clock; None where it is.
        canaries: of each model that has one, the canary that the registry named in the same moment as all
            else here; none while it cannot be read.
        candidates: the releases of canaries, as far as they are loaded, by model. While a model is loading,
            its last one is held too, since that may be what is loading.
        canary_issues: why the releases of canaries cannot be loaded, by model.
    """

    releases: Mapping[str, LoadedRelease] = field(default_factory=dict)
    keys: tuple[ApiKey, ...] | None = None
    health_issues: Mapping[str, str] = field(default_factory=dict)
    confirmed: float = float("-inf")
    loading: Mapping[str, float] = field(default_factory=dict)
    silenced: Mapping[str, str] = field(default_factory=dict)
    withdrawn: frozenset[tuple[str, str]] = frozenset()
    lost: float | None = None
    canaries: Mapping[str, Canary] = field(default_factory=dict)
    candidates: Mapping[str, LoadedRelease] = field(default_factory=dict)
    canary_issues: Mapping[str, str] = field(default_factory=dict)

    def candidate(self, model: str) -> tuple[Canary, LoadedRelease] | None:
        """The canary next to the release that answers, with its own; None where it is not loaded."""
        canary, loaded = self.canaries.get(model), self.candidates.get(model)
        if canary is None or loaded is None or loaded.release != canary.release:
            return None
        production = self.releases.get(model)
        return (canary, loaded) if production and production.release.id == canary.beside else None

    def is_withdrawn(self, version: Version) -> bool:
        """Whether a version was withdrawn, as of the last successful poll."""
        return (version.model, version.digest) in self.withdrawn

    def confirmed_for(self, model: str | None = None) -> float:
        """When the release of a model was last confirmed as current; of the oldest, where none is named."""
        if model is None:
            return min((self.confirmed, *self.loading.values()))
        return self.loading.get(model, self.confirmed)


class CurrentRelease:
    """Polls the registry in a thread of its own and publishes what is served as a `ServedRelease`."""

    def __init__(
        self,
        source: Registry,
        settings: ServeSettings,
        metrics: Metrics | None = None,
    ) -> None:
        """Polls the registry for the first time; what cannot be read is among the health issues.

        Args:
            source: the registry.
            settings: what an operator set.
            metrics: where loads, and the releases served, are counted.

        Raises:
            KeyUnusable: a file of trusted keys holds none.
        """
        self.alias = settings.alias
        self._canary_alias = f"{self.alias}/canary"  # no alias has a name with a stroke
        self.loader = Loader(source, trust_in(settings.trusted_keys), Device.of(settings))
        self._source = source
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._served = ServedRelease()
        self._asked: float | None = None  # since when an answer of the registry is outstanding
        self._answered = float("-inf")  # when it was last asked and did answer
        self._shared = threading.Lock()  # for what the loading thread leaves behind
        self._ready: dict[int, LoadedRelease] = {}  # loaded, and not put in place yet; by the release's id
        self._failed: dict[int, tuple[float, str]] = {}  # when a release failed to load and why, by its id
        self._events, self._newest = 0, ""  # the registry's chain of events at the last poll
        self._set_back = ""  # what happened to that chain; empty as long as it only grew
        self._stop, self._poll_now = threading.Event(), threading.Event()
        self._loading: dict[int, threading.Thread] = {}  # by the release's id
        self.refresh()
        self._thread = threading.Thread(target=self._poll_until_closed, name="registry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the threads."""
        self._stop.set()
        self._poll_now.set()
        self._thread.join()
        for loading in self._loading.values():
            loading.join(_CLOSING_SECONDS)

    @property
    def served(self) -> ServedRelease:
        """The snapshot of what is served now."""
        served = self._served
        if (
            served.lost is not None
            and (since := time.monotonic() - served.lost) > self._settings.max_age_seconds
        ):
            return replace(served, releases={}, keys=served.keys if since <= LOOK_SECONDS else None)
        if self._unanswered_for() <= SILENT_SECONDS or REGISTRY in served.health_issues:
            return served
        silent = f"the registry cannot be read: it has not answered for {self._unanswered_for():.0f} s"
        return replace(served, health_issues={**served.health_issues, REGISTRY: silent}, canaries={})

    def served_for(self, began: float, model: str | None = None) -> ServedRelease | None:
        """What is served, if it was confirmed recently enough for a request; None if the request has to wait.

        Args:
            began: when the request began, on the monotonic clock; seconds.
            model: the model that it asks; all of them have to be current where it names none.
        """
        served = self.served
        if served.lost is not None and not served.releases:
            return served  # which says why nothing answers
        recent = served.confirmed_for(model) >= began - self._settings.max_age_seconds
        # Nobody can say what is current; what was goes on serving, as if asking had failed.
        return served if recent or self._unanswered_for() > SILENT_SECONDS else None

    def may_answer(self, version: Version) -> bool | None:
        """Whether an answer that this version computed may be sent; None until the registry confirms it.

        It may not where the version was withdrawn. A confirmation is valid for `WITHDRAWN_SECONDS`; none is
        needed once the registry has not responded for `SILENT_SECONDS`.
        """
        served = self.served
        if served.is_withdrawn(version):
            return False
        recent = served.confirmed >= time.monotonic() - WITHDRAWN_SECONDS
        return True if recent or self._unanswered_for() > SILENT_SECONDS else None

    def refresh(self) -> None:
        """Polls the registry once, loads new releases, and publishes them."""
        if unloaded := self.poll():
            for release in unloaded:
                self.load(release)
            self.poll()

    def poll(self) -> list[Release]:
        """Polls the registry once and publishes what is loaded; returns the releases yet to be loaded."""
        self._asked = asked = time.monotonic()
        before = self._served
        try:
            standing = self._source.standing(self.alias)
            current = standing.releases
            keys = _without_return(before.keys or (), self._source.keys())
            self._compare_history(standing)
        except DatabaseLost as error:
            self._log_once(REGISTRY, error, before.health_issues)
            issues = {**before.health_issues, REGISTRY: f"the registry was lost: {error}"}
            self._publish(replace(before, health_issues=issues, lost=before.lost or asked, canaries={}))
            return []
        except Exception as error:  # noqa: BLE001 - whatever it is, and however long it took
            # Nobody can say what is current; what was goes on serving, and /readyz reports it.
            self._log_once(REGISTRY, error, before.health_issues)
            issues = {**before.health_issues, REGISTRY: f"the registry cannot be read: {error}"}
            # A release that was already known to be replaced is not confirmed by a moment's failure.
            recently = asked - self._answered < SILENT_SECONDS
            still = before.loading if recently else {}
            confirmed = time.monotonic()
            self._publish(
                replace(before, health_issues=issues, confirmed=confirmed, loading=still, canaries={})
            )
            return []
        finally:
            self._asked = None
        self._answered = asked
        withdrawn = standing.withdrawn | before.withdrawn  # there is no way back
        canaries = {
            model: one for model, one in standing.canaries.items() if not _numbers_of(one.release, withdrawn)
        }
        with self._shared:
            ready, failed = self._take_finished(
                [*current.values(), *(one.release for one in canaries.values())]
            )
        releases: dict[str, LoadedRelease] = {}
        issues = {REGISTRY: self._set_back} if self._set_back else {}
        loading: dict[str, float] = {}
        silenced = {model: STOPPED.format(model=model) for model in standing.stopped}
        new, retries = [], []
        for model, release in current.items():
            told = WITHDRAWN.format(model=model)
            if held := _numbers_of(release, withdrawn):
                silenced[model] = told
                issues[model] = f"release {release.id} of {model} holds version {held}, which was withdrawn"
                continue
            old = before.releases.get(model)
            if old and (held := _numbers_of(old.release, withdrawn)):
                log.warning(
                    "release %d of %s answers no more: version %s was withdrawn", old.release.id, model, held
                )
                old, silenced[model] = None, told
            elif old is None and before.silenced.get(model) == told:
                silenced[model] = told
            if old and old.release == release:
                releases[model] = old
            elif release.id in ready and ready[release.id].release == release:
                releases[model] = ready[release.id]
                silenced.pop(model, None)
                log.info(
                    "serving release %d of %s: versions %s", release.id, model, _describe_versions(release)
                )
            else:
                if old:
                    releases[model] = old
                if release.id in failed:
                    since, issues[model] = failed[release.id]
                    retries += [release] if asked - since >= RETRY_SECONDS else []
                else:
                    if model not in silenced:
                        loading[model] = before.confirmed_for(model) if old else float("-inf")
                    new.append(release)
        candidates = {model: old for model, old in before.candidates.items() if model in loading}
        canary_issues: dict[str, str] = {}
        for model, canary in canaries.items():
            last, id_ = before.candidates.get(model), canary.release.id
            loaded = last if last and last.release == canary.release else ready.get(id_)
            if loaded is not None:
                candidates[model] = loaded
            elif id_ in failed:
                since, canary_issues[model] = failed[id_]
                retries += [canary.release] if asked - since >= RETRY_SECONDS else []
            else:
                new.append(canary.release)
        self._publish(
            ServedRelease(
                releases,
                keys,
                issues,
                asked,
                loading,
                silenced,
                withdrawn,
                canaries=canaries,
                candidates=candidates,
                canary_issues=canary_issues,
            )
        )
        return new + retries

    def _compare_history(self, standing: SiteStatus) -> None:
        """Notices a registry that has lost the newest event of the last poll."""
        if self._newest not in ("", standing.newest) and not self._source.has_event(self._newest):
            self._set_back = (
                f"the registry was set back: it had {self._events} events, and the newest of these is not in "
                f"it any more; it has {standing.events} now. An older copy was restored, or it was altered: "
                "what was done since is undone in it. Look at `dermfed-registry history` and "
                "`dermfed-registry keys list`, then start the service again"
            )
            log.error("%s", self._set_back)
        self._events, self._newest = standing.events, standing.newest

    def load(self, release: Release) -> None:
        """Loads a release, which the next poll publishes; a failure is kept, logged and counted."""
        began, served = time.monotonic(), self._served
        canary = served.canaries.get(release.model)
        if canary is not None and canary.release.id != release.id:
            canary = None
        alias = self.alias if canary is None else self._canary_alias
        try:
            loaded = self.loader.load(release)
        except Exception as error:  # noqa: BLE001 - whatever it is, the old release goes on serving
            issue = f"release {release.id} of {release.model} cannot be served: {error}"
            if canary is not None:
                instead = "nothing is compared" if canary.mirror else "production answers in its place"
                what = f"canary: release {release.id} of {release.model}"
                issue = f"{what}: it cannot be served, and {instead}: {error}"
            self._log_once(
                release.model, error, served.health_issues if canary is None else served.canary_issues
            )
            with self._shared:
                self._failed[release.id] = (time.monotonic(), issue)
            self._metrics.loads.labels(alias, release.model, "failed").inc()
            return
        with self._shared:
            self._failed.pop(release.id, None)
            self._ready[release.id] = loaded
        self._metrics.loads.labels(alias, release.model, "loaded").inc()
        self._metrics.load_seconds.labels(alias, release.model).observe(time.monotonic() - began)
        if canary is not None:
            log.info("canary release %d of %s: %s", release.id, release.model, shown(canary.title))

    def _take_finished(
        self, current: Sequence[Release]
    ) -> tuple[dict[int, LoadedRelease], dict[int, tuple[float, str]]]:
        """The loads that have ended, ready or failed, of these releases; all others are forgotten."""
        ids = {release.id for release in current}
        ready = {id_: loaded for id_, loaded in self._ready.items() if id_ in ids}
        self._ready = {}
        self._failed = {id_: failed for id_, failed in self._failed.items() if id_ in ids}
        return ready, dict(self._failed)

    def _publish(self, served: ServedRelease) -> None:
        self._served = served
        serving = {model: loaded.release.id for model, loaded in served.releases.items()}
        self._metrics.serving(self.alias, serving, served.health_issues)
        trying = {m: found[1].release.id for m in served.canaries if (found := served.candidate(m))}
        self._metrics.serving(self._canary_alias, trying, served.canary_issues)
        answers = [(m, one) for m, one in served.canaries.items() if not one.mirror]
        self._metrics.canary_shares({(m, one.release.id): one.share for m, one in answers})

    def _unanswered_for(self) -> float:
        """How long the registry has left the poll under way without an answer; seconds."""
        asked = self._asked
        return 0.0 if asked is None else time.monotonic() - asked

    def _poll_until_closed(self) -> None:
        while not self._stop.is_set():
            self._poll_now.wait(self._settings.poll_seconds)
            self._poll_now.clear()
            if self._stop.is_set():
                return
            try:
                unloaded = self.poll()
            except Exception:
                # Whatever it is, the thread has to live: the next poll may succeed.
                log.exception("the registry could not be followed")
                continue
            self._loading = {id_: thread for id_, thread in self._loading.items() if thread.is_alive()}
            for release in unloaded:
                if release.id not in self._loading:
                    thread = threading.Thread(
                        target=self._load_in_background, args=(release,), name="loading", daemon=True
                    )
                    self._loading[release.id] = thread
                    thread.start()

    def _load_in_background(self, release: Release) -> None:
        self.load(release)
        self._poll_now.set()

    @staticmethod
    def _log_once(name: str, error: Exception, known: Mapping[str, str]) -> None:
        """Logs a health issue once, not at every poll; an unexpected error with its traceback."""
        if name in known and str(error) in known[name]:
            return
        foreseen = isinstance(error, (RegistryError, BundleError, OSError))
        log.error("%s: %s", name or "the registry", shown(str(error)), exc_info=None if foreseen else error)


def _without_return(before: Iterable[ApiKey], now: Iterable[ApiKey]) -> tuple[ApiKey, ...]:
    """The keys that the registry holds now, of which none that was bad before is good again.

    One that the registry does not hold any more counts as revoked, so that a registry without keys does not
    open a service that had some.
    """
    held = {one.id: one for one in now}
    for old in before:
        new = held.get(old.id)
        if new is None:
            held[old.id] = old if old.revoked is not None else replace(old, revoked=datetime.now(UTC))
        elif old.revoked is not None and new.revoked is None:
            held[old.id] = replace(new, revoked=old.revoked)
    return tuple(held.values())


def _numbers_of(release: Release, withdrawn: frozenset[tuple[str, str]]) -> str:
    """The numbers of the versions of a release that were withdrawn; empty where none was."""
    return ", ".join(str(one.number) for one in release.versions if (one.model, one.digest) in withdrawn)


def _describe_versions(release: Release) -> str:
    return ", ".join(
        f"{version.number} ({shown_name(version.subgroup.name)})" for version in release.versions
    )
