"""Admission control: how many requests are in progress, each until its deadline or its caller goes away.

- At most `queue` requests are in progress at once, from before their bodies are read until they are answered;
  further ones are refused (`Busy`), so that overload costs neither memory nor waiting time.
- A key is admitted while it has fewer requests in progress than there are free slots (dynamic thresholds,
  Choudhury & Hahne 1998): one key may take half of the slots, the next half of what is left, so that one slow
  sender cannot block all others. Without keys, only this machine may send requests, and may take all slots.
- Each request has `deadline_seconds` from its first byte and is cancelled then (`DeadlinePassed`), whether
  its body arrives slowly or too many requests are queued before it.
- A request is cancelled when its caller disconnects (`CallerGone`).
- A service that is shutting down admits no new requests (`Draining`) and answers those in progress, whose
  deadlines are shortened to `GRACE`.

A cancelled request stops at its current step: its body is not read further, its picture is not decoded or not
passed to the model. A decoding that has begun in a thread is finished first.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.requests import Request

from serving.metrics import Metrics
from serving.protocol.problems import Busy, CallerGone, DeadlinePassed, Draining

GRACE = 25.0
"""Seconds that a service may go on answering after SIGTERM; BentoML, where it is used, kills it after 30."""


class Admitted:
    """A request in progress: the scope that its deadline cancels, and the watch on its connection."""

    def __init__(self, request: Request, scope: anyio.CancelScope) -> None:
        self.scope = scope
        self.key: str | None = request.state.key
        self.disconnected = False
        self._request = request
        self._watching: asyncio.Task[None] | None = None

    def watch_for_disconnect(self) -> None:
        """Cancels the request when its caller disconnects; call it once the whole body has been read."""
        self._watching = asyncio.get_running_loop().create_task(self._until_disconnected())

    def stop_watching(self) -> None:
        """Ends `watch_for_disconnect`."""
        if self._watching is not None:
            self._watching.cancel()

    async def _until_disconnected(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        self.scope.cancel()


class Admission:
    """Admits requests up to a number at once, fairly by API key, each with a deadline.

    Attributes:
        draining: whether the service is ending.
    """

    def __init__(self, queue: int, deadline_seconds: float, metrics: Metrics) -> None:
        """Open, with no request in progress.

        Args:
            queue: how many requests may be in progress at once.
            deadline_seconds: how long each may take.
            metrics: where refusals are counted.
        """
        self.draining = False
        self._queue = queue
        self._deadline = deadline_seconds
        self._metrics = metrics
        self._admitted: set[Admitted] = set()
        self._admitted_by_key: Counter[str | None] = Counter()  # by the key's id

    def check_open(self) -> None:
        """Refuses a request while the service is ending.

        Raises:
            Draining: it is.
        """
        if self.draining:
            raise Draining(
                "the service is ending and takes no new requests; ask again, on another connection",
                {"Retry-After": "1", "Connection": "close"},
            )

    def drain(self) -> None:
        """Stops admitting; requests in progress have `GRACE` seconds left at most."""
        self.draining = True
        last = anyio.current_time() + GRACE
        for admitted in self._admitted:
            admitted.scope.deadline = min(admitted.scope.deadline, last)

    def _check_capacity(self, key: str | None) -> None:
        free = self._queue - len(self._admitted)
        if free <= 0:
            self._metrics.refused.labels("busy").inc()
            raise Busy(
                f"{self._queue} requests are waiting, which is as many as may; ask again a little later",
                {"Retry-After": "1"},
            )
        held = self._admitted_by_key[key]
        if key is not None and held >= free:
            self._metrics.refused.labels("share").inc()
            raise Busy(
                (
                    f"{held} requests with the API key {key} are waiting, and {free} places are left for "
                    "everybody else; ask again when some have been answered"
                ),
                {"Retry-After": "1"},
            )

    @asynccontextmanager
    async def admit(self, request: Request) -> AsyncIterator[Admitted]:
        """Admits a request for as long as the block runs.

        Args:
            request: the request, authorised, so that its key is known.

        Raises:
            Draining: the service is shutting down.
            Busy: no slot is free, or the key has as many requests in progress as slots are free.
            DeadlinePassed: the request took too long.
            CallerGone: the caller has disconnected.
        """
        if self.draining:
            self._metrics.refused.labels("draining").inc()
        self.check_open()
        self._check_capacity(request.state.key)
        left = self._deadline - (time.monotonic() - request.state.began)
        admitted = Admitted(request, anyio.CancelScope(deadline=anyio.current_time() + left))
        self._admitted.add(admitted)
        self._admitted_by_key[admitted.key] += 1
        try:
            with admitted.scope:
                yield admitted
        finally:
            admitted.stop_watching()
            self._admitted.discard(admitted)
            self._admitted_by_key[admitted.key] -= 1
            if not self._admitted_by_key[admitted.key]:
                del self._admitted_by_key[admitted.key]  # keys come and go
        if not admitted.scope.cancelled_caught:
            return
        if admitted.disconnected:
            self._metrics.refused.labels("cancelled").inc()
            raise CallerGone("the connection was closed before the answer was ready")
        self._metrics.refused.labels("deadline").inc()
        raise DeadlinePassed(
            (
                f"the answer was not ready within {self._deadline:g} seconds; send the picture again, a "
                "smaller copy if your connection is slow"
            ),
            {"Retry-After": "5"},
        )
