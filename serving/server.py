"""The HTTP server: Granian, which keeps worker processes on the port and speaks HTTP/1.1 for our application.

Granian handles callers who send a header too slowly, keep a connection idle, or send no HTTP, before the
application is called; a body that arrives too slowly ends with the application's own deadline. A worker that
ends is replaced. One that ends again within seconds ends the service, so that the service manager (systemd,
Docker, Kubernetes) sees that it cannot run.

SIGTERM first drains: for `drain_seconds` each worker answers 503 to new requests and closes their
connections, so that a load balancer notices and no caller is left with an open connection. Then the port
is closed, and requests in progress are answered.
"""

import contextlib
import errno
import gc
import os
import resource
import signal
import socket
import threading
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from serving.decoding.confine import die_with_parent

DRAIN: Final = signal.SIGUSR1
"""Tells a worker that the service will end."""

COUNTS: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which all workers count; it is emptied when the service starts."""

END_SECONDS: Final = 65
"""After how long workers that were told to end are killed."""

HEAD_BYTES: Final = 64 * 2**10
"""How many bytes the head of a request may have."""


class CannotListenError(ValueError):
    """A name that this machine does not know, or an address or a port that cannot be listened on."""


def listening_address(host: str, port: int) -> str:
    """The first address of a host, in numbers, that can be listened on.

    Raises:
        CannotListenError: there is none, or the port is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise CannotListenError(
            f"{host!r} is no address of this machine ({error}); give numbers, such as 127.0.0.1 or ::1, or a "
            "name that this machine knows, with --host"
        ) from error
    for family, kind, protocol, _, place in found:
        # Workers share the port (SO_REUSEPORT), so that of this check alone another service is noticed.
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(place)
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) and place != found[-1][4]:
                    continue
                raise CannotListenError(
                    f"{host} port {port} cannot be listened on ({error.strerror}); choose another with "
                    "--port or --host"
                ) from error
        return str(place[0])
    raise AssertionError


class Server(MPServer):
    """Granian, which drains before it ends."""

    drain_seconds: float = 0.0
    _draining = False

    def signal_handler_interrupt(self, *arguments: Any, **options: Any) -> None:
        """Drains at the first signal, and ends some time later; at the second ends at once."""
        if self._draining or not self.drain_seconds:
            super().signal_handler_interrupt()  # type: ignore[no-untyped-call]
            return
        self._draining = True
        for worker in self.wrks:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(worker.inner.pid, DRAIN)
        end = threading.Timer(self.drain_seconds, super().signal_handler_interrupt)
        end.daemon = True  # after a second signal nothing waits for it
        end.start()


def serve(host: str, port: int, workers: int, header_seconds: float, drain_seconds: float) -> None:
    """Serves until SIGTERM or SIGINT; the process ends with 1 where a worker cannot run.

    Args:
        host: the address to listen on, in numbers.
        port: the port.
        workers: how many processes answer.
        header_seconds: how long the head of a request may take to come in.
        drain_seconds: how long new requests are refused before the port is closed.
    """
    import serving.http.app  # noqa: F401 - once for all workers, which are forked

    if folder := os.environ.get(COUNTS):
        _empty(Path(folder))
    gc.collect()
    gc.freeze()  # what all workers share is copied for none
    signal.signal(DRAIN, signal.SIG_IGN)  # inherited by workers that do not serve yet
    server = Server(
        "serving.server:application",
        factory=True,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        workers=workers,
        loop=Loops.asyncio,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(int(1000 * header_seconds), max_buffer_size=HEAD_BYTES),
        websockets=False,
        # Admission bounds requests: a bound on connections would let half-open ones keep callers out.
        backpressure=_raise_limit_on_files(),
        respawn_failed_workers=True,
        workers_kill_timeout=END_SECONDS,
        log_level=LogLevels.warning,
    )
    server.drain_seconds = drain_seconds
    server.serve()


def application() -> Any:
    """The application of one worker, which ends with the process that started it."""
    if (parent := parent_process()) is not None and parent.pid is not None:
        die_with_parent(parent.pid)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until it can end, see `ServiceState.start`
    os.setpgid(0, 0)  # Ctrl-C is for the process that started it, which drains first
    from registry.registry import Registry
    from serving.http.app import build_app
    from serving.logs import set_up_logs
    from serving.settings import read_settings

    set_up_logs()
    settings = read_settings()
    return build_app(settings, partial(Registry.open, identity=settings.registry_id))


def _raise_limit_on_files() -> int:
    """Raises the limit on open files as far as it may be; each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.db"):
        path.unlink(missing_ok=True)
