"""`DermFed` and `AsyncDermFed`: send requests and wait between them.

What is sent and what it means is decided in `requests` and `answers`.
"""

import time
from collections.abc import Awaitable, Callable
from itertools import count
from types import TracebackType
from typing import Any, Self, Unpack

import anyio
import anyio.to_thread
import httpx

from clients.api.answers import answer_of, read_diagnosis, read_json
from clients.api.diagnosis import Diagnosis
from clients.api.errors import Unavailable
from clients.api.requests import (
    MODELS,
    READY,
    Asked,
    Call,
    Image,
    card_call,
    connection,
    diagnosis_call,
    retry_count,
    service_url,
    wait_before_next,
)


class DermFed:
    """The diagnosis service, for apps. One client serves all threads; close it, or use it with `with`.

    Pictures go to the host that `base_url` names and nowhere else: redirects are not followed, and the
    proxies of the environment (`HTTPS_PROXY` and the like) are not used. Of the environment only
    `SSL_CERT_FILE` and `SSL_CERT_DIR` count. Where a proxy is wanted, say so:
    `DermFed(url, key, transport=httpx.HTTPTransport(proxy="http://proxy:3128"))`.

    Patience: making a connection takes at most 10 seconds (or `timeout`, if that is less), and `timeout`
    seconds of silence end a request with `TimedOut`, which is not retried. There are `retries` + 1 attempts,
    with at most 8 seconds between two, or what the service asks for in Retry-After up to 60 seconds. With the
    defaults a service that refuses connections is given up after 7.5 seconds at most, a host that never
    answers after 58, and a service that asks for a minute each time after four waits of one minute.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
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
        self._http = httpx.Client(**settings, transport=transport)

    def diagnose(self, image: Image | None = None, **asked: Unpack[Asked]) -> Diagnosis:
        """Ask about one picture, or, where the model takes cases, about several of one lesion and facts.

        Args:
            image: the picture's bytes (JPEG, PNG, WebP, HEIC, AVIF or DICOM), a path on disk (a text is
                always a path, never a URL), or an open binary file, which is read to its end. Of a case, one
                of which it is not known of what kind it is.
            close_up: a close-up of the lesion.
            dermoscopic: a dermoscopic picture of it.
            overview: a picture that shows where it is.
            facts: facts about the patient by name, such as `age`, `sex` and `site`; None where one is not
                known. `models()` tells which the model takes.
            skin_tone: the declared skin tone; the model for it answers where there is one.
            skin_tone_scale: the scale it was declared on; `fitzpatrick` where none is given.
            model: which model; may be left out where the service has but one.
            top: list only so many findings. The prediction set is never cut.
            explain: ask where in each picture the model looked, too: `explanation` of the answer.
            frame: of a DICOM file that holds several the one that is meant, counted from 1; `all` for each as
                a picture of the lesion.

        Raises:
            InvalidInput: the picture cannot be read or is none; nothing was sent.
            ConnectionFailed: the service cannot be reached.
            TimedOut: it was silent for too long.
            UnexpectedAnswer: what answered is not the service.
            ProblemError: the service refused; its subclasses say why.
        """
        return read_diagnosis(self._send(diagnosis_call(image, asked), self._retries))

    def models(self) -> Any:
        """What the service says of its models, as JSON.

        Raises:
            DermFedError: as `diagnose` does.
        """
        return read_json(self._send(MODELS, self._retries))

    def card(self, name: str) -> Any:
        """A model's card (fairness, calibration, lineage), as JSON.

        Raises:
            NotFound: no such model.
            DermFedError: as `diagnose` does.
        """
        return read_json(self._send(card_call(name), self._retries))

    def ready(self) -> bool:
        """Whether the service can answer pictures now: False while it starts, stops or has no model.

        Asked once, without retries.

        Raises:
            ConnectionFailed: nothing is there.
            DermFedError: as `diagnose` does.
        """
        try:
            self._send(READY, retries=0)
        except Unavailable:
            return False
        return True

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DermFed({str(self._url)!r})"

    def _send(self, call: Call, retries: int) -> httpx.Response:
        for done in count():
            try:
                outcome: httpx.Response | httpx.RequestError = self._http.request(**vars(call))
            except httpx.RequestError as error:
                outcome = error
            wait = wait_before_next(outcome, done, retries)
            if wait is None:
                break
            self._sleep(wait)
        return answer_of(outcome, self._url, attempts=done + 1)


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

    async def diagnose(self, image: Image | None = None, **asked: Unpack[Asked]) -> Diagnosis:
        """Ask about one lesion, as `DermFed.diagnose` does. A path or an open file is read in a thread.

        Raises:
            DermFedError: as `DermFed.diagnose` does.
        """
        call = await anyio.to_thread.run_sync(diagnosis_call, image, asked)
        return read_diagnosis(await self._send(call, self._retries))

    async def models(self) -> Any:
        """What the service says of its models, as JSON.

        Raises:
            DermFedError: as `diagnose` does.
        """
        return read_json(await self._send(MODELS, self._retries))

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
            await self._send(READY, retries=0)
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
            try:
                outcome: httpx.Response | httpx.RequestError = await self._http.request(**vars(call))
            except httpx.RequestError as error:
                outcome = error
            wait = wait_before_next(outcome, done, retries)
            if wait is None:
                break
            await self._sleep(wait)
        return answer_of(outcome, self._url, attempts=done + 1)
