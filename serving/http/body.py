"""A request's body as it comes in, and never more of it than allowed."""

from collections.abc import AsyncGenerator

from starlette.requests import ClientDisconnect, Request

from serving.protocol.problems import BodyTooLarge, MalformedRequest


async def stream_body(
    request: Request, ceiling: int, too_large: str, what: str = "body"
) -> AsyncGenerator[bytes, None]:
    """Streams the body, and refuses it past so many bytes; the rest is thrown away unread.

    The connection stays open: closing it on a sender who is still sending loses him the answer.

    Args:
        request: whose body.
        ceiling: how many bytes it may have.
        too_large: what is said of one with more.
        what: what it is, for whoever sends half of one.

    Raises:
        BodyTooLarge: it has more, or announces more.
        MalformedRequest: the connection ended before it did.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > ceiling:
        raise BodyTooLarge(too_large)
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > ceiling:
                raise BodyTooLarge(too_large)
            yield chunk
    except ClientDisconnect as error:
        raise MalformedRequest(f"the connection ended before the {what} did; send it again") from error


async def read_body(request: Request, ceiling: int, too_large: str, what: str = "body") -> bytes:
    """The whole body.

    Raises:
        BodyTooLarge, MalformedRequest: as `stream_body`.
    """
    return b"".join([chunk async for chunk in stream_body(request, ceiling, too_large, what)])
