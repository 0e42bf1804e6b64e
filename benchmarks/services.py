"""Services to be asked: on a port of their own, ready when they are handed out, ended afterwards."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from registry.registry import Registry


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def processor_time(process: int) -> float:
    """The seconds that a process and all below it have had of the processor, those that ended included."""
    family = [psutil.Process(process)]
    family += family[0].children(recursive=True)
    # Of a process: its own, and what its children had that it has waited for.
    return sum(sum(one.cpu_times()[:4]) for one in family)


@dataclass(frozen=True)
class TwoWorkers:
    """`dermfed-serve` with two workers, which keeps all it needs in a folder.

    Attributes:
        command: what starts it.
        address: where it answers.
        environment: its settings, of which a registry is opened by `registry`.
    """

    command: Sequence[str]
    address: str
    environment: Mapping[str, str]

    @classmethod
    def on_a_free_port(cls, folder: Path, **settings: str) -> "TwoWorkers":
        """Not started yet; keywords are further settings."""
        port = free_port()
        environment = {
            "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
            "DERMFED_STORE": str(folder / "store"),
            "BENTOML_HOME": str(folder / "bentoml"),
            "DERMFED_SERVE_RECORDS": str(folder / "records"),
            **settings,
        }
        command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
        return cls([*command, "--workers", "2"], f"http://127.0.0.1:{port}", environment)

    def registry(self) -> Registry:
        """The registry that it serves from."""
        return Registry.open(self.environment["DERMFED_REGISTRY_URL"], self.environment["DERMFED_STORE"])


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
