"""The open connections of a process, and which of them makes room when there are as many as may be.

A connection on which a request is being answered stays. Of the others (nothing was asked yet, half a head has
come, the answer was given) one goes: of the address that holds most of them, one on which nothing was asked
before one on which something was, and the oldest first. So whoever opens a thousand connections and sends
nothing shuts out himself. Behind a proxy all have one address, and the oldest goes.
"""

import logging
import socket
from collections.abc import Iterator
from enum import Enum
from itertools import chain
from typing import Final, Protocol

log = logging.getLogger("dermfed.serve")

_BETWEEN_LINES: Final = 10.0
"""How long the log is silent after it said that connections were closed; seconds."""


class Phase(Enum):
    """What a connection is at."""

    HEAD = "a head is awaited, or half of one has come"
    IDLE = "the answer was given, and nothing has come since"
    ANSWERING = "a request is being read and answered"
    REST = "the answer was given, and the rest of what was sent with the request is read past"
    CLOSING = "it is being closed"


_MAKE_ROOM: Final = (Phase.HEAD, Phase.REST, Phase.CLOSING, Phase.IDLE)
"""The phases in which a connection may have to go, the first to go first."""


class Connection(Protocol):
    """What is asked of a connection."""

    phase: Phase
    peer: str

    def has_unread(self) -> bool:
        """Whether the kernel holds bytes that have come and were not read."""

    def abort(self) -> None:
        """Closes it at once."""


class Connections:
    """The open connections of a process, by address and by what they are at.

    Attributes:
        most: how many there may be.
    """

    def __init__(self, most: int) -> None:
        """None is open."""
        self.most = most
        self._open: dict[Connection, None] = {}
        # By address, then by phase, in the order in which they came to it.
        self._waiting: dict[str, dict[Phase, dict[Connection, None]]] = {}
        self._closed = self._refused = 0
        self._said = float("-inf")

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        """All that are open; it may be changed meanwhile."""
        return iter([*self._open])

    def admit(self, connection: Connection, now: float) -> bool:
        """Takes in a connection in its phase, in another's place where there are as many as may be.

        Args:
            connection: one that was just accepted.
            now: the event loop's time; seconds.

        Returns:
            Whether it may stay; not where a request is answered on every other.
        """
        if len(self._open) >= self.most:
            if (chosen := self._makes_room()) is None:
                self._refused += 1
                self._say(now)
                return False
            self.forget(chosen)
            chosen.abort()
            self._closed += 1
            self._say(now)
        self._open[connection] = None
        self._enlist(connection)
        return True

    def move(self, connection: Connection, phase: Phase) -> None:
        """Notes that a connection is at something else now."""
        self._strike(connection)
        connection.phase = phase
        if connection in self._open:
            self._enlist(connection)

    def forget(self, connection: Connection) -> None:
        """Notes that it is closed, or as good as that."""
        self._strike(connection)
        self._open.pop(connection, None)

    def _enlist(self, connection: Connection) -> None:
        if connection.phase in _MAKE_ROOM:
            phases = self._waiting.setdefault(connection.peer, {})
            phases.setdefault(connection.phase, {})[connection] = None

    def _strike(self, connection: Connection) -> None:
        phases = self._waiting.get(connection.peer)
        if phases is None or connection not in phases.get(connection.phase, {}):
            return
        del phases[connection.phase][connection]
        if not phases[connection.phase]:
            del phases[connection.phase]
        if not phases:
            del self._waiting[connection.peer]

    def _makes_room(self) -> Connection | None:
        if not self._waiting:
            return None
        phases = max(self._waiting.values(), key=lambda held: sum(map(len, held.values())))
        oldest_first = (one for phase in _MAKE_ROOM for one in phases.get(phase, ()))
        oldest = next(oldest_first)
        # What has come and was not read may be a whole request.
        return next((one for one in chain([oldest], oldest_first) if not one.has_unread()), oldest)

    def _say(self, now: float) -> None:
        if now - self._said < _BETWEEN_LINES:
            return
        log.warning(
            "%d connections are open, as many as may be: %d on which nothing was asked were closed for "
            "others, %d were refused; look for who opens them, or set DERMFED_SERVE_CONNECTIONS",
            *(len(self._open), self._closed, self._refused),
        )
        self._said, self._closed, self._refused = now, 0, 0


def peer_of(host: str) -> str:
    """What a caller is counted by: an address of IPv4, and of IPv6 its /64 network, which one caller has."""
    if ":" not in host:
        return host
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return host
    mapped = packed[:12] == bytes(10) + b"\xff\xff"
    return packed[12:].hex() if mapped else packed[:8].hex()
