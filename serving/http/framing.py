"""Where a request ends: one that says so in two ways may be read in two, by a proxy and by us."""

from collections import Counter

from starlette.exceptions import HTTPException
from starlette.types import Scope

from serving.protocol.problems import MalformedRequest


def refuse_two_lengths(scope: Scope) -> None:
    """Refuses a request of which not all would say where it ends, and closes its connection (RFC 9112, 6.1).

    Raises:
        MalformedRequest: it has a `Content-Length` beside a `Transfer-Encoding`, several of one, or a
            `Transfer-Encoding` in HTTP/1.0, which has none.
    """
    named = Counter(name for name, _ in scope["headers"])
    coded, sized = named[b"transfer-encoding"], named[b"content-length"]
    if coded + sized > 1 or (coded and scope.get("http_version") == "1.0"):
        raise MalformedRequest(
            "it says in more than one way where its body ends; send either Content-Length or, in HTTP/1.1, "
            "Transfer-Encoding, once",
            {"Connection": "close"},
        )


def refuse_websocket(scope: Scope) -> None:
    """Refuses a request that asks to leave HTTP for WebSocket, and closes its connection.

    Raises:
        HTTPException: it does; 404.
    """
    if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in scope["headers"]):
        raise HTTPException(404, headers={"Connection": "close"})
