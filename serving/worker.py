"""One process that answers: `serving.supervisor` starts it, with sockets that it has opened.

Over a pipe the process knows when the service ends: the supervisor closes it, or is gone, however that came.
"""

import os
import resource
import signal
import socket
import sys
import threading
import time
from functools import partial
from types import FrameType
from typing import Final, NoReturn

from dermfed.own_names import refuse_foreign

LATEST: Final = 60.0
"""When a process that was told to end is ended, whatever holds it up; seconds."""

_OTHER_FILES: Final = (
    512  # of the registry, the models, libraries, and connections that are just being accepted
)


def main() -> None:
    """Serve on the sockets whose numbers are given, the pipe's first."""
    pipe, *listening = map(int, sys.argv[1:])
    whole = threading.Event()
    signal.signal(signal.SIGTERM, _end)  # uvicorn's own stands before it while it serves
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the supervisor's: Ctrl-C reaches every process of a terminal
    threading.Thread(target=_wait_for_the_end, args=(pipe, whole), name="end", daemon=True).start()
    refuse_foreign()
    serve([socket.socket(fileno=one) for one in listening], whole)


def serve(listening: list[socket.socket], whole: threading.Event) -> None:
    """Serve the diagnosis service until SIGTERM.

    Args:
        listening: the sockets that it accepts from.
        whole: set where the other workers end, too.
    """
    from registry.registry import Registry
    from serving.http.app import build_app
    from serving.logs import set_up_logs
    from serving.settings import read_settings
    from serving.transport.config import Bounds
    from serving.transport.server import Server

    set_up_logs()
    settings = read_settings()
    app = build_app(settings, partial(Registry.open, identity=settings.registry_id))
    bounds = Bounds(settings.header_seconds, settings.deadline_seconds)
    Server(app, bounds, files_for(settings.connections), whole.is_set).run(listening)


def files_for(connections: int) -> int:
    """Raises the limit on open files so that so many connections fit; how many do in the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(connections, soft - _OTHER_FILES))
    return connections


def _wait_for_the_end(pipe: int, whole: threading.Event) -> NoReturn:
    os.read(pipe, 1)  # nothing is ever written to it
    whole.set()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LATEST)
    os._exit(1)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    main()
