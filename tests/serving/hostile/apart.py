"""The service in a process of its own, so that its memory is its own: `python apart.py DATABASE STORE`.

Says its port once it listens, and ends when its input does.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import uvicorn

from registry.registry import Registry
from serving.http.app import build_app
from serving.settings import ServeSettings

ROOT = Path(__file__).parents[3]


def serve(database: str, store: str) -> None:
    """Answers until the other end of the input is closed."""
    limits = {"requests_per_minute": 0, "decode_seconds": 1}
    settings = ServeSettings(poll_seconds=0.2, threads=2, records=None, **limits)
    application = build_app(settings, lambda: Registry.open(database, store))
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, access_log=False))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        print(listening.getsockname()[1], flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), setattr(server, "should_exit", True))).start()
        server.run(sockets=[listening])


class Apart:
    """A service that runs apart.

    Attributes:
        client: asks it.
        url: where it is.
    """

    def __init__(self, process: "subprocess.Popen[str]", client: httpx.Client) -> None:
        """Takes a process that listens."""
        self._process = process
        self.client = client
        self.url = str(client.base_url).rstrip("/")

    def memory(self) -> int:
        """The bytes of memory that it and all processes below it hold, shared pages counted once."""
        service = psutil.Process(self._process.pid)
        return sum(held(one.pid) for one in (service, *service.children(recursive=True)))

    def kept(self) -> int:
        """The bytes that the service itself holds on to: its own memory, and no other process's."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the system does not say")


def held(pid: int) -> int:
    """The bytes of memory that a process holds, a page that several hold counted in parts."""
    with suppress(OSError):  # it has just ended
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


@contextmanager
def apart(database: str, store: str | Path) -> Iterator[Apart]:
    """Runs the service over a registry."""
    command = [sys.executable, __file__, database, str(store)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DERMFED_SERVE_")}
    # Large blocks go back to the system when they are let go of: what is measured is what is kept.
    kept |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "2"}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**kept, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the service did not start"
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            for _ in range(100):
                if client.get("/readyz").status_code == 200:
                    break
            yield Apart(process, client)
            assert process.poll() is None, "the service ended"
        assert process.stdin is not None
        process.stdin.close()


if __name__ == "__main__":
    serve(*sys.argv[1:])
