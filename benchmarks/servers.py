"""What the server around the application costs: Granian, which the service runs, beside others.

Processor time of the serving processes for each request, and requests a second of four callers who keep their
connections open. The kinds take turns, since a machine is never as quick as a moment ago; the ratio is of the
medians over the turns. A trivial application: uvicorn with h11 (as BentoML's workers have it), with
httptools where that is installed, and Granian. The service, asked for `/livez` and for a diagnosis by a small
model: `bentoml serve serving.service:DiagnosisService`, and `dermfed-serve`, one worker each.
"""

import http.client
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from quick import start
from services import free_port, running
from small_model import NAME, small_bundle, small_picture
from tables import print_conditions, print_table
from workers import below

from registry.registry import Registry

CALLERS = 4
TICK = os.sysconf("SC_CLK_TCK")
PLAIN = Path(__file__).parent / "plain"


def processor_seconds(root: int) -> float:
    """The processor time that a process and those below it have used."""
    used = 0
    for pid in (root, *below(root)):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        used += int(fields[11]) + int(fields[12])
    return used / TICK


def ask(port: int, how: tuple[str, str, bytes | None], requests: int) -> float:
    """The seconds that so many requests take by `CALLERS` at once."""
    method, path, body = how
    headers = {"Content-Type": "image/jpeg"} if body else {}

    def caller() -> None:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for _ in range(requests // CALLERS):
            line.request(method, path, body, headers)
            answer = line.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
        line.close()

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def compare(
    asked: dict[str, tuple[int, int]], how: tuple[str, str, bytes | None], requests: int, turns: int
) -> list[list[str]]:
    """A row for each kind; the first is what the others are compared with.

    Args:
        asked: the process and the port of each kind.
        how: method, path and body.
        requests: in each turn.
        turns: of each kind.
    """
    spent: dict[str, list[float]] = {kind: [] for kind in asked}
    lasted: dict[str, list[float]] = {kind: [] for kind in asked}
    for turn in range(turns + 1):
        for kind, (pid, port) in asked.items():
            before = processor_seconds(pid)
            seconds = ask(port, how, requests)
            if turn:  # the first warms up
                spent[kind].append(1e6 * (processor_seconds(pid) - before) / requests)
                lasted[kind].append(requests / seconds)
    first = next(iter(asked))
    base, base_rate = statistics.median(spent[first]) or 1.0, statistics.median(lasted[first])
    return [
        [
            kind,
            f"{statistics.median(spent[kind]):.0f}",
            f"{statistics.median(spent[kind]) / base:.2f}",
            f"{statistics.median(lasted[kind]) / base_rate:.2f}",
        ]
        for kind in asked
    ]


def trivial(stack: ExitStack, folder: Path) -> dict[str, tuple[int, int]]:
    """The trivial application behind each server."""
    kinds = ["h11", *(["httptools"] if find_spec("httptools") else []), "granian"]
    found = {}
    for kind in kinds:
        port = free_port()
        command = [sys.executable, str(PLAIN / "trivial_app.py"), kind, str(port)]
        process = stack.enter_context(running(command, f"http://127.0.0.1:{port}/", folder / f"{kind}.log"))
        found[kind] = (process.pid, port)
    return found


def services(stack: ExitStack, folder: Path) -> dict[str, tuple[int, int]]:
    """The service under BentoML and by itself."""
    places = (f"sqlite:///{folder / 'registry.db'}", str(folder / "store"))
    with Registry.open(*places) as registry:
        (version,) = registry.add([small_bundle(0)])
        registry.promote(NAME, [version.number], to="production", reason="a benchmark", override_gates=True)
    found = {}
    commands: dict[str, Sequence[str]] = {
        "bentoml serve": ("-m", "bentoml", "serve", "serving.service:DiagnosisService"),
        "dermfed-serve": ("-c", "from serving.cli import main; main()"),
    }
    for kind, command in commands.items():
        port = free_port()
        environment = {
            "DERMFED_REGISTRY_URL": places[0],
            "DERMFED_STORE": places[1],
            "DERMFED_SERVE_RECORDS": "none",
            "BENTOML_HOME": str(folder / kind.partition(" ")[0]),
            "BENTOML_DO_NOT_TRACK": "True",
        }
        whole = [sys.executable, *command, "--port", str(port)]
        ready = f"http://127.0.0.1:{port}/readyz"
        log = folder / f"{kind}.log"
        process = stack.enter_context(running(whole, ready, log, environment, PLAIN.parents[1]))
        found[kind] = (process.pid, port)
    return found


def main(
    requests: Annotated[int, typer.Option(help="Of each kind in each turn.")] = 2000,
    turns: Annotated[int, typer.Option(help="Of each kind.")] = 7,
) -> None:
    """Measure the servers."""
    print_conditions("The server around the application", {"callers": CALLERS, "turns": turns})
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        plain = trivial(stack, folder)
        rows += [["trivial", *row] for row in compare(plain, ("GET", "/", None), requests, turns)]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        served = services(stack, Path(name))
        for what, how in {
            "/livez": ("GET", "/livez", None),
            "a diagnosis": ("POST", "/v1/diagnoses", small_picture("JPEG")),
        }.items():
            rows += [[what, *row] for row in compare(served, how, requests // 4, turns)]
    print_table(["asked", "server", "processor us a request", "ratio", "requests a second, ratio"], rows)


if __name__ == "__main__":
    start(main, "--requests 40 --turns 1")
