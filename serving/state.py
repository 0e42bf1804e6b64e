"""What all endpoints share while the service runs, such as metrics and the release."""

import asyncio
import signal
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio.to_thread
from starlette.requests import Request

from registry.bundle.text import nearest
from registry.records import Scope, Version
from registry.registry import Registry
from serving.admission import Admission
from serving.auth import KeyLacksScope, UnknownKey, authorise
from serving.decoding.decoders import Decoders
from serving.inference.batcher import Batcher
from serving.limits import Limits
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


_AT_ONCE = 4
"""Requests that read the registry, or outcomes, at once: a database that does not answer holds no others."""


@dataclass(frozen=True, eq=False)
class ServiceState:
    """The parts of a running service.

    Attributes:
        registry: its calls block, so make them in a thread.
        answers: keeps answers for their outcomes; None where none are kept.
        cores: that there were when it started.
        operator_threads: in which pages for operators read the registry.
        outcome_threads: in which outcomes are read and written.
    """

    settings: ServeSettings
    metrics: Metrics
    admission: Admission
    registry: Registry
    current_release: CurrentRelease
    decoders: Decoders
    batcher: Batcher
    limits: Limits
    decision_log: DecisionLog
    canaries: Rollout
    answers: AnswerKeeper | None
    monitoring: Monitoring
    cores: int
    operator_threads: anyio.CapacityLimiter = field(default_factory=partial(anyio.CapacityLimiter, _AT_ONCE))
    outcome_threads: anyio.CapacityLimiter = field(default_factory=partial(anyio.CapacityLimiter, _AT_ONCE))

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
            *changed_cores(self.settings, self.cores),
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


def service_of(request: Request) -> ServiceState:
    """The parts of the service that a request has come to.

    Raises:
        NothingServed: the service is starting or ending.
    """
    service: ServiceState | None = getattr(request.app.state, "service", None)
    if service is None:
        raise NothingServed("the service is starting or ending; try again", {"Retry-After": "1"})
    return service


@asynccontextmanager
async def running(
    settings: ServeSettings,
    metrics: Metrics,
    admission: Admission,
    source: Callable[[], AbstractContextManager[Registry]],
) -> AsyncIterator[ServiceState]:
    """Runs the service within the block: polls the registry, and drains on SIGUSR1."""
    # Of odd EXIF Pillow warns in words that its sender chooses, and Python remembers each for good.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    in_thread, url = anyio.to_thread.run_sync, settings.outcomes_url
    decoders, closing = Decoders(settings, metrics), list[Callable[[], None]]()
    with ExitStack() as opened:
        try:
            decoders.start()  # first: it is ready by the time that a release is
            registry = opened.enter_context(source())
            decision_log = DecisionLog(settings, metrics)
            closing.append(decision_log.close)
            current = await in_thread(CurrentRelease, registry, settings, metrics)
            closing.append(current.close)
            await in_thread(decoders.wait)
            canaries = Rollout(settings, metrics, current, decoders.decode)
            closing.append(canaries.close)
            answers = AnswerKeeper(url, metrics) if url else None
            if answers is not None:
                await in_thread(answers.start)
                closing.append(answers.close)
            monitoring = Monitoring(metrics, answers, registry, current, canaries)
            closing.append(monitoring.close)
            with suppress(RuntimeError, ValueError):  # a service in a thread receives no signals
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGUSR1, admission.drain)
                # Blocked by `serving.server` until Granian, which is started after this, can end.
                loop.call_later(0.1, signal.pthread_sigmask, signal.SIG_UNBLOCK, {signal.SIGTERM})
            yield ServiceState(
                *(settings, metrics, admission, registry, current, decoders),
                Batcher(settings, metrics, decoders),
                Limits(settings, metrics),
                *(decision_log, canaries, answers, monitoring, cores()),
            )
        finally:
            # Whoever was still asking has been answered; a thread that waits for a decoder goes on.
            for close in (decoders.close, *reversed(closing)):
                await in_thread(close)


def changed_cores(settings: ServeSettings, before: int) -> list[str]:
    """A health issue if the number of cores has changed and `threads` is not configured."""
    if (now := cores()) == before or "threads" in settings.model_fields_set:
        return []
    return [
        f"the service may use {now} cores, and {before} when it started; start it again so that its "
        "threads follow"
    ]


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
