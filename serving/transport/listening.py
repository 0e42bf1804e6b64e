"""The sockets that a service listens on: opened by one process, accepted from by all, closed with no loss."""

import contextlib
import ctypes
import socket
import struct
import sys
from collections.abc import Iterable
from typing import Final

WAITING: Final = 1024
"""How many connections the kernel keeps for a service that has not accepted them yet."""

_ATTACH_FILTER: Final = 26  # SO_ATTACH_FILTER of Linux; the socket module has no name for it
_RETURN: Final = 0x06  # BPF_RET | BPF_K: of a packet keep so many bytes


class CannotListenError(ValueError):
    """A name that nobody knows, or an address that cannot be listened on."""


def addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """The addresses that a host's name stands for: `localhost` may be one of IPv4 and one of IPv6.

    Raises:
        CannotListenError: nobody knows the name.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no name"
        raise CannotListenError(
            f"{host!r} is no address of this machine ({why}); give numbers, such as 127.0.0.1 or ::1, "
            "or a name that this machine knows, with --host"
        ) from error
    return list(dict.fromkeys((family, (str(place[0]), port)) for family, _, _, _, place in found))


def listen(host: str, port: int) -> list[socket.socket]:
    """Listens on every address of a host; whoever calls it closes them.

    Of a name that stands for several addresses, those of a kind that this machine has not (IPv6, often) are
    left out.

    Raises:
        CannotListenError: there is none that can be listened on, or one is taken.
    """
    opened: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, place in addresses(host, port):
            try:
                opened.append(_listen(family, place))
            except OSError as error:
                if _has_no_such_address(error):
                    missing = error
                    continue
                raise _cannot(host, port, error) from error
        if not opened:
            assert missing is not None
            raise _cannot(host, port, missing) from missing
    except CannotListenError:
        close(opened)
        raise
    return opened


def _listen(family: socket.AddressFamily, place: tuple[str, int]) -> socket.socket:
    # asyncio sends small packets at once only where the protocol is named.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(place)
        listening.listen(WAITING)
    except OSError:
        listening.close()
        raise
    return listening


def _has_no_such_address(error: OSError) -> bool:
    import errno

    return error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def _cannot(host: str, port: int, error: OSError) -> CannotListenError:
    return CannotListenError(
        f"{host} port {port} cannot be listened on ({error.strerror}); choose another with --port or --host"
    )


def close(sockets: Iterable[socket.socket]) -> None:
    """Closes this process's hold on them."""
    for one in sockets:
        one.close()


def refuse_new(listening: socket.socket) -> None:
    """Lets no further connection begin, in any process, and leaves those that wait to be accepted.

    Between the last look at a queue and the closing of its socket a connection may come, and is reset with
    the request that it has sent already. A socket filter that keeps no byte of any packet is looked at for
    whoever wants to connect, and for no connection that is accepted: he asks again, and is refused when the
    socket is closed, before he could send anything. On a system without such filters nothing is changed.
    """
    if sys.platform != "linux":
        return
    program = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    with contextlib.suppress(OSError):
        listening.setsockopt(
            socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("@HP", 1, ctypes.addressof(program))
        )
