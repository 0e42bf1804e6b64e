"""`ServiceState`: what all endpoints share while the service runs, such as metrics and the release."""

import asyncio
import signal
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from registry.bundle.text import nearest
from registry.records import Scope, Version
from registry.registry import Registry
from serving.access.admission import Admission
from serving.access.auth import KeyLacksScope, UnknownKey, authorise
from serving.access.limits import Limits
from serving.decoding.decoders import Decoders
from serving.inference.batcher import Batcher
from serving.inference.device import Device
from serving.machine import cores
from serving.metrics import Metrics
from serving.monitoring.decision_log import DecisionLog
from serving.monitoring.monitor import Monitoring
from serving.monitoring.outcomes import AnswerKeeper
from serving.protocol.problems import InvalidParameter, NothingServed, ProblemResponse, UnknownModel
from serving.releases.current_release import CurrentRelease, ServedRelease
from serving.releases.loading import LoadedRelease
from serving.releases.rollout import Rollout
from serving.settings import ServeSettings

Told = TypeVar("Told")

GONE = "the version of {model} that was answering was withdrawn; ask again"
NOT_TOLD = "no model can answer; the service's log says why, and a key with the scope operate is told"
"""In place of health issues, for whoever does not operate the service."""

POLL = 0.02
"""How often a waiting request looks whether its release has been loaded; seconds."""


class ServiceState:
    """The parts of a running service, started and stopped together."""

    def __init__(self, settings: ServeSettings) -> None:
        """Makes the parts; nothing is read or started before `start`.

        Raises:
            DeviceUnusable: models cannot run on the execution provider that the settings name.
        """
        self.settings = settings
        self._cores = cores()
        Device.of(settings).require()
        self.metrics = Metrics()
        self.admission = Admission(settings.queue, settings.deadline_seconds, self.metrics)
        self.decoders = Decoders(settings, self.metrics)
        self.batcher = Batcher(settings, self.metrics, self.decoders)
        self.limits = Limits(settings, self.metrics)
        self.decision_log = DecisionLog(settings, self.metrics)
        url = settings.outcomes_url
        self.answers = AnswerKeeper(url, self.metrics) if url else None
        self.monitoring = Monitoring(self.metrics, self.answers)
        self._current_release: CurrentRelease | None = None
        self._canaries: Rollout | None = None
        self._registry: Registry | None = None

    @asynccontextmanager
    async def start(self, source: Callable[[], AbstractContextManager[Registry]]) -> AsyncIterator[None]:
        """Runs the service within the block: polls the registry, and drains on SIGUSR1."""
        # Of odd EXIF Pillow warns in words that its sender chooses, and Python remembers each for good.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
        with ExitStack() as opened:
            try:
                self.decoders.start()  # first: it is ready by the time that a release is
                registry = opened.enter_context(source())
                self._current_release = await anyio.to_thread.run_sync(
                    CurrentRelease, registry, self.settings, self.metrics
                )
                self._registry = registry
                await anyio.to_thread.run_sync(self.decoders.wait)
                if self.answers is not None:
                    await anyio.to_thread.run_sync(self.answers.start)
                self._canaries = Rollout(
                    self.settings, self.metrics, self._current_release, self.decoders.decode
                )
                self.monitoring.start(registry, self._current_release, self._canaries)
                with suppress(RuntimeError, ValueError):  # a service in a thread receives no signals
                    loop = asyncio.get_running_loop()
                    loop.add_signal_handler(signal.SIGUSR1, self.admission.drain)
                    # Blocked by `serving.server` until Granian, which is started after this, can end.
                    loop.call_later(0.1, signal.pthread_sigmask, signal.SIG_UNBLOCK, {signal.SIGTERM})
                yield
            finally:
                await self._close()

    async def _close(self) -> None:
        """Ends all parts that have begun, also where a later one could not."""
        current, self._current_release, self._registry = self._current_release, None, None
        canaries, self._canaries = self._canaries, None
        # Whoever was still asking has been answered; a thread that waits for a decoder goes on.
        await anyio.to_thread.run_sync(self.decoders.close)
        await anyio.to_thread.run_sync(self.monitoring.close)
        if self.answers is not None:
            await anyio.to_thread.run_sync(self.answers.close)
        if canaries is not None:
            await anyio.to_thread.run_sync(canaries.close)
        if current is not None:
            await anyio.to_thread.run_sync(current.close)
        await anyio.to_thread.run_sync(self.decision_log.close)

    @property
    def current_release(self) -> CurrentRelease:
        """What polls the registry and holds the current release.

        Raises:
            NothingServed: the service is starting or ending.
        """
        if self._current_release is None:
            raise _not_started()
        return self._current_release

    @property
    def canaries(self) -> Rollout:
        """The canaries of the current release.

        Raises:
            NothingServed: the service is starting or ending.
        """
        if self._canaries is None:
            raise _not_started()
        return self._canaries

    @property
    def registry(self) -> Registry:
        """The registry; its calls block, so make them in a thread.

        Raises:
            NothingServed: the service is starting or ending.
        """
        if self._registry is None:
            raise _not_started()
        return self._registry

    @property
    def health_issues(self) -> list[str]:
        """What degrades the service though it answers, one sentence each, for the operator."""
        return [
            *self.current_release.served.health_issues.values(),
            *self.current_release.served.canary_issues.values(),
            *self.monitoring.health_issues(),
            *self.decision_log.health_issues,
            *self.decoders.health_issues,
            *(self.answers.health_issues if self.answers else ()),
            *self._changed_cores(),
        ]

    def _changed_cores(self) -> list[str]:
        """A health issue if the number of cores has changed and `threads` is not configured."""
        if (now := cores()) == self._cores or "threads" in self.settings.model_fields_set:
            return []
        return [
            f"the service may use {now} cores, and {self._cores} when it started; start it again so that its "
            "threads follow"
        ]

    async def authorise(self, request: Request, scope: Scope, *, page: bool = False) -> None:
        """Checks a request's API key and scope, and counts it against the key's rate limit.

        Args:
            request: who asks.
            scope: what for.
            page: whether it is a page, for which a browser may send a key in its own way.

        Raises:
            KeyMissing, ScopeMissing, TooManyRequests, NothingServed: as their names say.
        """
        # Without the request itself: a cycle would hold its connection until garbage is collected.
        request.state.check = partial(authorise, scope=scope, page=page)
        try:
            key = request.state.check(request, keys=self.current_release.served.keys)
        except UnknownKey:
            self.limits.count_unknown_key(request)
            raise
        except KeyLacksScope as refusal:
            self.limits.count(request, refusal.key)
            raise
        self.limits.count(request, key)

    def may(self, request: Request, scope: Scope, *, page: bool = False) -> bool:
        """Whether a request that is answered anyway has a further scope too; it counts against no rate.

        Args:
            request: who asks.
            scope: such as `operate`, to be shown health issues, which name hosts and folders.
            page: whether it is a page, for which a browser may send a key in its own way.
        """
        try:
            authorise(request, self.current_release.served.keys, scope, page=page)
        except ProblemResponse:
            return False
        return True

    async def served(self, request: Request, model: str | None = None) -> ServedRelease:
        """What is served to this request, once the registry has confirmed it; waits while a release loads.

        Args:
            request: who asks.
            model: the model that it asks; a newer release of any other need not be waited for.

        Raises:
            NothingServed: no model can answer.
        """
        current, began = self.current_release, request.state.began
        served = await self._told(
            partial(current.served_for, began, model),
            began,
            "a new release has been loading for too long",
        )
        key = request.state.check(
            request, keys=served.keys
        )  # it may have been revoked while the body came in
        if not served.releases:
            told = nothing_served(served, self.settings.alias, in_full=key is None or "operate" in key.scopes)
            raise NothingServed(told, {"Retry-After": "5"})
        return served

    async def may_leave(self, version: Version) -> None:
        """Returns once an answer of this version may leave: a withdrawn one may not, however far it has come.

        Args:
            version: the version that has computed it.

        Raises:
            NothingServed: it was withdrawn, or the registry does not say for too long.
        """
        current = self.current_release

        def may_answer() -> bool | None:
            may, served = current.may_answer(version), current.served
            if may is None and served.lost is not None and not served.releases:
                told = nothing_served(served, self.settings.alias, in_full=False)
                raise NothingServed(told, {"Retry-After": "5"})
            return may

        otherwise = "the registry does not say whether this answer may be given"
        if not await self._told(may_answer, time.monotonic(), otherwise):
            raise NothingServed(GONE.format(model=version.model), {"Retry-After": "1"})

    async def _told(self, ask: Callable[[], Told | None], began: float, otherwise: str) -> Told:
        """Wait for what the registry reports, at most `patience_seconds` from `began` on."""
        while (told := ask()) is None:
            if time.monotonic() - began > self.settings.patience_seconds:
                raise NothingServed(f"{otherwise}; try again", {"Retry-After": "5"})
            await anyio.sleep(POLL)
        return told


def select_release(served: ServedRelease, name: str | None) -> LoadedRelease:
    """The release of the model asked for, or of the only one there is.

    Raises:
        UnknownModel: nothing of this name is served.
        InvalidParameter: no name, and several models.
        NothingServed: the model was stopped, or what answered was withdrawn.
    """
    if name is None:
        # One that is stopped counts: whoever named none before must not be answered by another now.
        if len(known := sorted({*served.releases, *served.silenced})) > 1:
            raise InvalidParameter(
                "several models are served; name one: `model` is {models}".format(models=", ".join(known))
            )
        return next(iter(served.releases.values()))
    if name in served.silenced:
        raise NothingServed(served.silenced[name], {"Retry-After": "5"})
    if name not in served.releases:
        hint = nearest(name, list(served.releases))
        raise UnknownModel(f"no model {name[:100]!r} is served; {hint}")
    return served.releases[name]


def _not_started() -> NothingServed:
    return NothingServed("the service is starting or ending; try again", {"Retry-After": "1"})


def nothing_served(served: ServedRelease, alias: str, *, in_full: bool) -> str:
    """The sentence for a caller when no model can answer: why, and what to do.

    Args:
        served: the state of serving, with no release.
        alias: whose releases.
        in_full: whether to include health issues, which name folders, hosts and objects; else the sentence
            only refers to the log.
    """
    issues = [*served.health_issues.values()] if in_full else []
    if told := [*served.silenced.values(), *issues]:
        return told[0] if len(told) == 1 else "; ".join(told)
    if served.health_issues:
        return NOT_TOLD
    return f"no model has been promoted to {alias}; use `dermfed-registry promote MODEL VERSION --to {alias}`"
