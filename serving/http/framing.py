"""Where a request ends: one that says so in two ways may be read in two, by a proxy and by us."""

from starlette.exceptions import HTTPException
from starlette.types import Scope

from serving.protocol.problems import MalformedRequest

_LENGTHS = (b"content-length", b"transfer-encoding")


def refuse_two_lengths(scope: Scope) -> None:
    """Refuses a request of which not all would say where it ends, and closes its connection (RFC 9112, 6.1).

    Raises:
        MalformedRequest: it has a `Content-Length` beside a `Transfer-Encoding`, several of one, or a
            `Transfer-Encoding` in HTTP/1.0, which has none.
    """
    said = sum(name in _LENGTHS for name, _ in scope["headers"])
    if said > 1 or (said and scope.get("http_version") == "1.0" and _is_coded(scope)):
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


def _is_coded(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" for name, _ in scope["headers"])
