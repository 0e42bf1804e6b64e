"""How much of a process a caller may hold, beside uvicorn's configuration, which reaches every connection."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp

from serving.transport.connections import Connections

HEAD_BYTES: Final = 64 * 2**10
"""How many bytes of a head may be waiting for their end."""

ACCEPTED_AT_ONCE: Final = 64
"""How many connections a process accepts before it looks at those it has, so that others get some, too."""


@dataclass(frozen=True)
class Bounds:
    """How long a caller may hold a connection.

    Attributes:
        header_seconds: how long the head of a request may take to come in.
        request_seconds: how long the application takes at most, the body of the request included.
        keep_alive_seconds: how long a connection stays open on which nothing is asked.
    """

    header_seconds: float
    request_seconds: float
    keep_alive_seconds: int = 5


class Config(uvicorn.Config):
    """uvicorn's configuration for an application of ours.

    Attributes:
        bounds: how long a caller may hold a connection.
        table: the open connections.
    """

    def __init__(
        self, app: ASGIApp, protocol: type[asyncio.Protocol], bounds: Bounds, connections: int
    ) -> None:
        """Speaks HTTP/1.0 and 1.1 alone, and leaves the log to whoever starts it.

        Args:
            app: what answers.
            protocol: what a connection is.
            bounds: how long a caller may hold one.
            connections: how many there may be at once.
        """
        super().__init__(
            cast(Any, app),
            http=protocol,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=bounds.keep_alive_seconds,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        self.bounds = bounds
        self.table = Connections(connections)
