"""Services to be asked: on a port of their own, ready when they are handed out, ended afterwards."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def running(
    command: Sequence[str],
    ready: str,
    log: Path,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A service that answers at `ready`; what it prints goes into `log`."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, cwd=folder, stdout=out, stderr=out
        )
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(ready).read()
                break
            except OSError:
                time.sleep(0.5)
        else:
            raise SystemExit(f"{command} did not come up:\n{log.read_text()}")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
