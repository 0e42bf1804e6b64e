"""Which diagnoses are begun at all, and until when they are worked on.

- At most `queue` requests are inside at once, from before their bodies are read until they are answered;
  one more is told to come back (`Busy`), so that a crowd costs neither memory nor anybody's patience.
- A key is let in while it holds fewer of these places than are free (dynamic thresholds, Choudhury & Hahne
  1998): one key may hold half of them, and the next half of what is left, so that nobody who sends slowly
  keeps all others out. While there are no keys, only this machine asks, and may hold them all.
- Each has `deadline_seconds` from its first byte; what is not answered by then is given up
  (`DeadlinePassed`), be it that a picture comes in a byte at a time or that too many are before it.
- Whoever goes away is not worked for any longer (`CallerGone`).
- A service that is ending takes no new ones (`Draining`) and answers those inside, whose deadlines are
  drawn in to what its supervisor grants.

What is given up leaves wherever it stands: the body is not read on, the picture is not decoded, or not
shown to the model. Where a thread is decoding it, that is finished first.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.requests import Request

from serving.metrics import Metrics
from serving.problems import Busy, CallerGone, DeadlinePassed, Draining

GRACE = 25.0
"""How long after it was told to end the service may still be answering; BentoML kills it after 30 seconds."""


class Place:
    """A request that was let in."""

    def __init__(self, request: Request, scope: anyio.CancelScope) -> None:
        self.scope = scope
        self.key: str | None = request.state.key
        self.gone = False
        self._request = request
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """From now on, whoever goes away is noticed. To be called when the whole body has been read."""
        self._watching = asyncio.get_running_loop().create_task(self._until_gone())

    def leave(self) -> None:
        """Nobody is watched any longer."""
        if self._watching is not None:
            self._watching.cancel()

    async def _until_gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.scope.cancel()


class Admission:
    """Lets requests in.

    Attributes:
        draining: whether the service is ending.
    """

    def __init__(self, queue: int, deadline_seconds: float, metrics: Metrics) -> None:
        """Open, and nobody inside.

        Args:
            queue: how many requests may be inside at once.
            deadline_seconds: how long each may take.
            metrics: is told who was not answered.
        """
        self.draining = False
        self._queue = queue
        self._deadline = deadline_seconds
        self._metrics = metrics
        self._inside: set[Place] = set()
        self._held: Counter[str | None] = Counter()  # by the key's id

    def check_open(self) -> None:
        """Refuses what comes while the service is ending.

        Raises:
            Draining: it is.
        """
        if self.draining:
            raise Draining(
                "the service is ending and takes no new requests; ask again, on another connection",
                {"Retry-After": "1", "Connection": "close"},
            )

    def drain(self) -> None:
        """Lets nobody in any more; those inside have `GRACE` seconds left at most."""
        self.draining = True
        last = anyio.current_time() + GRACE
        for place in self._inside:
            place.scope.deadline = min(place.scope.deadline, last)

    def _check_room(self, key: str | None) -> None:
        free = self._queue - len(self._inside)
        if free <= 0:
            self._metrics.busy()
            raise Busy(
                f"{self._queue} requests are waiting, which is as many as may; ask again a little later",
                {"Retry-After": "1"},
            )
        if key is not None and self._held[key] >= free:
            self._metrics.over_share()
            raise Busy(
                f"{self._held[key]} requests with the API key {key} are waiting, and {free} places are left "
                "for everybody else; ask again when some have been answered",
                {"Retry-After": "1"},
            )

    @asynccontextmanager
    async def place(self, request: Request) -> AsyncIterator[Place]:
        """A place for a request, while it is worked on.

        Args:
            request: the request, of which it is known whose it is.

        Raises:
            Draining: the service is ending.
            Busy: there is none left, or its key holds as many as are left.
            DeadlinePassed: it took too long.
            CallerGone: nobody waits for the answer.
        """
        if self.draining:
            self._metrics.draining()
        self.check_open()
        self._check_room(request.state.key)
        left = self._deadline - (time.monotonic() - request.state.began)
        place = Place(request, anyio.CancelScope(deadline=anyio.current_time() + left))
        self._inside.add(place)
        self._held[place.key] += 1
        try:
            with place.scope:
                yield place
        finally:
            place.leave()
            self._inside.discard(place)
            self._held[place.key] -= 1
            if not self._held[place.key]:
                del self._held[place.key]  # keys come and go
        if not place.scope.cancelled_caught:
            return
        if place.gone:
            self._metrics.cancelled()
            raise CallerGone("the connection was closed before the answer was ready")
        self._metrics.deadline()
        raise DeadlinePassed(
            f"the answer was not ready within {self._deadline:g} seconds; send the picture again, "
            "a smaller copy if your connection is slow",
            {"Retry-After": "5"},
        )
