"""`AsyncDermFed`: what `DermFed` is, for apps that wait with `await`."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self

import anyio
import anyio.to_thread
import httpx

from clients.api.answers import answer_of, read_diagnosis, read_json
from clients.api.diagnosis import Diagnosis
from clients.api.errors import Unavailable
from clients.api.requests import (
    Call,
    Image,
    Outcome,
    card_call,
    connection,
    diagnosis_call,
    models_call,
    ready_call,
    retry_count,
    service_url,
    wait_before_next,
)


class AsyncDermFed:
    """The diagnosis service, for apps that wait with `await`, under asyncio or trio.

    One client serves all tasks of an event loop; close it, or use it with `async with`. What `DermFed` says
    of pictures, proxies and patience holds here too; a proxy is `httpx.AsyncHTTPTransport(proxy=...)`. A
    task that is cancelled sends nothing more.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Connect to nothing yet.

        Args:
            base_url: where the service is, e.g. `https://dermfed.hospital.example`.
            api_key: as `dermfed-registry keys` handed it out; None where the service needs none.
            timeout: seconds of silence that are borne.
            retries: how often a request is sent again; 0 for a single attempt.
            transport: how requests travel, for a proxy, client certificates or tests.
            sleep: how to wait between attempts, for tests.

        Raises:
            InvalidInput: the URL, the key or a number cannot be used.
        """
        self._url = service_url(base_url)
        self._retries = retry_count(retries)
        self._sleep = sleep
        settings = connection(self._url, api_key, timeout, own_transport=transport is not None)
        self._http = httpx.AsyncClient(**settings, transport=transport)

    async def diagnose(
        self,
        image: Image | None = None,
        *,
        close_up: Image | None = None,
        dermoscopic: Image | None = None,
        overview: Image | None = None,
        facts: Mapping[str, str | int | float | None] | None = None,
        skin_tone: str | int | None = None,
        skin_tone_scale: str | None = None,
        model: str | None = None,
        top: int | None = None,
        explain: bool = False,
        frame: int | Literal["all"] | None = None,
    ) -> Diagnosis:
        """Ask about one lesion, as `DermFed.diagnose` does. A path or an open file is read in a thread.

        Raises:
            InvalidInput: the picture cannot be read or is none; nothing was sent.
            ConnectionFailed: the service cannot be reached.
            TimedOut: it was silent for too long.
            UnexpectedAnswer: what answered is not the service.
            ProblemError: the service refused; its subclasses say why.
        """
        kinds = {"close_up": close_up, "dermoscopic": dermoscopic, "overview": overview}
        parameters = {
            "skin_tone": skin_tone,
            "skin_tone_scale": skin_tone_scale,
            "model": model,
            "top": top,
            "explain": "true" if explain else None,
            "frame": frame,
        }
        call = await anyio.to_thread.run_sync(diagnosis_call, image, parameters, kinds, facts or {})
        return read_diagnosis(await self._send(call, self._retries))

    async def models(self) -> Any:
        """What the service says of its models, as JSON.

        Raises:
            DermFedError: as `diagnose` does.
        """
        return read_json(await self._send(models_call(), self._retries))

    async def card(self, name: str) -> Any:
        """A model's card (fairness, calibration, lineage), as JSON.

        Raises:
            NotFound: no such model.
            DermFedError: as `diagnose` does.
        """
        return read_json(await self._send(card_call(name), self._retries))

    async def ready(self) -> bool:
        """Whether the service can answer pictures now: False while it starts, stops or has no model.

        Asked once, without retries.

        Raises:
            ConnectionFailed: nothing is there.
            DermFedError: as `diagnose` does.
        """
        try:
            await self._send(ready_call(), retries=0)
        except Unavailable:
            return False
        return True

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncDermFed({str(self._url)!r})"

    async def _send(self, call: Call, retries: int) -> httpx.Response:
        for done in count():
            outcome = await self._attempt(call)
            wait = wait_before_next(outcome, done, retries)
            if wait is None:
                break
            await self._sleep(wait)
        return answer_of(outcome, self._url, attempts=done + 1)

    async def _attempt(self, call: Call) -> Outcome:
        try:
            return await self._http.request(
                call.method, call.path, params=call.params, headers=call.headers, content=call.content
            )
        except httpx.RequestError as error:
            return error
