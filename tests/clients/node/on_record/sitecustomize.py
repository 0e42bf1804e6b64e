"""Python imports this at its start where this folder is on its path: every process writes down whom it calls.

Into the folder that `DERMFED_TEST_CALLS` names, one file for each process: the event, the kind of socket, the
host and the port. gRPC connects from C, where no audit hook sees it; its own trace
(`GRPC_TRACE=event_engine`) tells.
"""

import os
import sys
from socket import SOCK_DGRAM

OF_SOCKETS = ("socket.connect", "socket.sendto")
OF_NAMES = ("socket.getaddrinfo", "socket.gethostbyname")


def listen(folder: str) -> None:
    """Write down what happens from now on, for as long as the process lives."""
    file = os.open(f"{folder}/{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def record(event: str, arguments: tuple) -> None:
        if event in OF_SOCKETS:
            kind = "UDP" if arguments[0].type == SOCK_DGRAM else "TCP"
            address = arguments[-1]
        elif event in OF_NAMES:
            kind, address = "name", arguments
        else:
            return
        host, port, *_ = [*address, ""] if isinstance(address, tuple) else (address, "")
        os.write(file, f"{event} {kind} {host} {port}\n".encode())

    sys.addaudithook(record)


if folder := os.environ.get("DERMFED_TEST_CALLS"):
    listen(folder)
