"""Connections that wait are shared by the workers, instead of all being taken by the first who looks.

All workers listen on one socket. asyncio accepts whatever waits there in one go, so that of callers who
connect at the same time and keep their connections open all may end up with one worker, while the others
have nothing to do. Here each look takes one; a worker that is busy looks less often.

asyncio has no setting for it but the length of the queue, which is another matter: the loop's own method is
called with a smaller count. Loops that have none, such as uvloop's, are left as they are.
"""

import asyncio
from typing import Any, Final

_AT_ONCE: Final = 1  # connections


def accept_one_by_one(loop: asyncio.AbstractEventLoop) -> None:
    """From now on this loop takes one connection at a time; to be called before it listens."""
    accept = getattr(loop, "_accept_connection", None)
    if accept is None:
        return

    def one(factory: Any, sock: Any, context: Any = None, server: Any = None, *settings: Any) -> None:
        _backlog, *others = settings or (None,)
        accept(factory, sock, context, server, _AT_ONCE, *others)

    loop._accept_connection = one  # type: ignore[attr-defined]
