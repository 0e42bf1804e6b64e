"""What all endpoints share while the service runs: the settings, the counters, and what is live."""

import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread
from starlette.requests import Request

from registry.bundle.nearest import nearest
from registry.keys import Scope
from serving.admission import Admission
from serving.auth import KeyLacksScope, UnknownKey, authorise, authorise_page
from serving.batching import Batching
from serving.draining import draining_on_sigterm
from serving.limits import Limits, shared_folder
from serving.live import Live, LoadedRelease, Source, State
from serving.metrics import Metrics
from serving.monitoring import Monitoring
from serving.problems import InvalidParameter, NothingServed, Problem, UnknownModel
from serving.records.keeping import Records
from serving.settings import ServeSettings

POLL = 0.02
"""How often a waiting request looks whether its release has been loaded; seconds."""


class Running:
    """The service between its start and its end."""

    def __init__(self, settings: ServeSettings) -> None:
        """Nothing is read or started before `start`."""
        self.settings = settings
        self.metrics = Metrics()
        self.admission = Admission(settings.queue, settings.deadline_seconds, self.metrics)
        self.batching = Batching(settings.threads, settings.max_batch, self.metrics)
        self.limits = Limits(settings, self.metrics, shared_folder())
        self.records = Records(settings, self.metrics)
        self.monitoring = Monitoring(settings, self.metrics)
        self._live: Live | None = None
        self._registry: Source | None = None

    @asynccontextmanager
    async def start(self, source: Callable[[], AbstractContextManager[Source]]) -> AsyncIterator[None]:
        """Follows the registry while the service runs."""
        # Of odd EXIF Pillow warns in words that its sender chooses, and Python remembers each for good.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
        self.records.start()
        with source() as registry:
            self._live = await anyio.to_thread.run_sync(Live, registry, self.settings, self.metrics)
            self._registry = registry
            self.monitoring.watch(registry, self._live)
            try:
                with draining_on_sigterm(self.admission.drain, self.settings.drain_seconds):
                    yield
            finally:
                live, self._live, self._registry = self._live, None, None
                await anyio.to_thread.run_sync(self.batching.close)
                await anyio.to_thread.run_sync(self.monitoring.close)
                await anyio.to_thread.run_sync(live.close)
                self.limits.close()
                self.records.close()

    @property
    def live(self) -> Live:
        """What follows the registry.

        Raises:
            NothingServed: the service is starting or ending.
        """
        if self._live is None:
            raise _between()
        return self._live

    @property
    def registry(self) -> Source:
        """The registry, which may be slow: ask it in a thread.

        Raises:
            NothingServed: the service is starting or ending.
        """
        if self._registry is None:
            raise _between()
        return self._registry

    @property
    def troubles(self) -> list[str]:
        """What an operator has to know of, though the service answers."""
        apart = (*self.monitoring.troubles(), *self.limits.troubles, *self.records.troubles)
        return [*self.live.state.troubles.values(), *apart]

    async def authorise(self, request: Request, scope: Scope, *, page: bool = False) -> None:
        """Refuses a request that may not go on, or whose key has asked too often.

        Args:
            request: who asks.
            scope: what for.
            page: whether it is a page, for which a browser may send a key in its own way.

        Raises:
            KeyMissing, ScopeMissing, TooManyRequests, NothingServed: as their names say.
        """
        request.state.check = partial(authorise_page if page else authorise, request, scope=scope)
        try:
            key = request.state.check(keys=self.live.state.keys)
        except UnknownKey:
            self.limits.guessed(request)
            raise
        except KeyLacksScope as refusal:
            self.limits.count(request, refusal.key)
            raise
        self.limits.count(request, key)

    def may(self, request: Request, scope: Scope) -> bool:
        """Whether somebody who asks what is open to all may know more: troubles name hosts and folders."""
        try:
            authorise(request, self.live.state.keys, scope)
        except Problem:
            return False
        return True

    async def state(self, request: Request, model: str | None = None) -> State:
        """What is current for this request, waiting while a new release is being loaded.

        Args:
            request: who asks.
            model: the model that it asks; a newer release of any other need not be waited for.

        Raises:
            NothingServed: no model can answer.
        """
        live, began = self.live, request.state.began
        while (state := live.state_for(began, model)) is None:
            if time.monotonic() - began > self.settings.patience_seconds:
                raise NothingServed(
                    "a new release has been loading for too long; try again", {"Retry-After": "5"}
                )
            await anyio.sleep(POLL)
        request.state.check(keys=state.keys)  # a key may have been revoked while the body came in
        if not state.releases:
            raise NothingServed(nothing_served(state, self.settings.alias), {"Retry-After": "5"})
        return state


def pick(state: State, name: str | None) -> LoadedRelease:
    """The release of the model asked for, or of the only one there is.

    Raises:
        UnknownModel: nothing of this name is served.
        InvalidParameter: no name, and several models.
    """
    if name is None:
        if len(state.releases) > 1:
            raise InvalidParameter(
                f"several models are served; name one: `model` is {', '.join(state.releases)}"
            )
        return next(iter(state.releases.values()))
    if name not in state.releases:
        raise UnknownModel(f"no model {name[:100]!r} is served; {nearest(name, list(state.releases))}")
    return state.releases[name]


def _between() -> NothingServed:
    return NothingServed("the service is starting or ending; try again", {"Retry-After": "1"})


def nothing_served(state: State, alias: str) -> str:
    """Why no model can answer, and what to do."""
    if state.troubles:
        return "; ".join(state.troubles.values())
    return f"no model has been promoted to {alias}; use `dermfed-registry promote MODEL VERSION --to {alias}`"
