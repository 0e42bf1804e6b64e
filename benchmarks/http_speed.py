"""Our service beside the limit and beside what else one could write, in one run on one machine.

limit: ONNX Runtime in a loop of threads in one process, with the very decode of the service and no HTTP.
dermfed: `dermfed-serve`, one worker. FastAPI: the plain service under `plain/`, one worker, with its defaults
(Pillow's full decode, ONNX Runtime's own choice of threads).

All use the same model (a ResNet-18, then an EfficientNet-Lite0, with random weights) and the same JPEG. The
load comes from a process of its own, each caller waiting for its answer. They take turns for some seconds
each, several times, and who comes first changes, so that a machine whose speed drifts slows all alike.
Throughputs are given as ratios to the limit, medians over the turns; latencies are over all requests of all
turns. Processor time is of the contestant and its processes alone, those that have ended included, a picture:
on a machine that does other work too, it is the figure to compare.

Half load (with several concurrencies): requests come whether or not earlier ones are answered, as those of
people do, on average half as many a second as the same contestant answered in the median turn at concurrency
8. Each is timed from when it came. FastAPI is only needed here (pip install fastapi), and left out where it
is not installed.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Annotated, Literal

import numpy as np
import typer
from load import arrivals
from PIL import Image, ImageFilter
from quick import print_conditions, print_table, start
from services import free_port, processor_time, running

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import Label
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule, decode_picture
from registry.registry import Registry
from training.models import ModelConfig, build_model
from training.models.export import export_graph

HERE = Path(__file__).parent


@dataclass
class Measured:
    """The turns of one contestant at one concurrency."""

    per_second: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    of_limit: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    of_limits_processor: float = 1.0

    def add(self, latencies: list[float], seconds: float, processor: float) -> None:
        """One turn."""
        self.per_second.append(len(latencies) / seconds)
        self.processor.append(1000 * processor / max(len(latencies), 1))
        self.latencies += latencies

    def percentile(self, q: float) -> float:
        """Milliseconds."""
        return 1000 * float(np.percentile(self.latencies, q))

    def row(self) -> list[str]:
        """Throughput, its ratio to the limit's, and latencies."""
        p50, p99 = self.percentile(50), self.percentile(99)
        throughput, ratio = median(self.per_second), median(self.of_limit)
        took = [f"{p50:.0f}", f"{p99:.0f}", f"{p99 / p50:.1f}", f"{median(self.processor):.1f}"]
        took.append(f"{self.of_limits_processor:.2f}")
        return [f"{throughput:.1f}", f"{ratio:.2f}", *took]


PICTURES: Mapping[str, tuple[tuple[int, int], float, int]] = {
    "app": ((1280, 960), 3, 88),
    "phone": ((4000, 3000), 2, 95),
}
"""Width and height, blur and quality of JPEGs: as a phone takes them, and as an app scales them before."""


def make_picture(path: Path, kind: str) -> None:
    """A JPEG of blurred noise: 131 KB for an app's, 3 to 4 MB for a phone's."""
    (width, height), blur, quality = PICTURES[kind]
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(noise).filter(ImageFilter.GaussianBlur(blur)).save(path, quality=quality)


def make_bundle(size: int, name: str = "resnet18") -> Bundle:
    """A network with random weights and two classes."""
    model = build_model(ModelConfig(name=name, weights="none"), 2, 0)
    graph = export_graph(model, size)
    manifest = BundleManifest(
        model="bench",
        file=ModelFile.of(graph),
        labels=(
            Label(code="B", name="Benign", malignancy="benign"),
            Label(code="M", name="Malignant", malignancy="malignant"),
        ),
        picture=PictureRule(size=size),
        lineage=Lineage(job="sha256:" + "0" * 64, recipe="none", seed=0, code_version="0"),
    )
    return Bundle(manifest, graph, bundle_digest(manifest))


@dataclass(frozen=True)
class Load:
    """How requests come: so many at once, or so many a second."""

    kind: Literal["at-once", "a-second"]
    number: float


Turn = Callable[[Load, float], tuple[list[float], float, float]]
"""Puts a load on a contestant for some seconds: the latencies, how long it took, and its processor time."""


def loop(bundle: Bundle, picture: bytes) -> Turn:
    """The limit: decode and run, in as many threads as are asked for and the machine has cores."""
    graph, cores = Graph(bundle.model), os.cpu_count() or 1

    def work(came: float) -> float:
        graph.run(decode_picture(picture, bundle.manifest.picture)[None])
        return perf_counter() - came

    def again_and_again(until: float) -> list[float]:
        latencies = []
        while (now := perf_counter()) < until:
            latencies.append(work(now))
        return latencies

    def turn(load: Load, seconds: float) -> tuple[list[float], float, float]:
        began, before = perf_counter(), process_time()
        threads = min(int(load.number), cores) if load.kind == "at-once" else cores
        with ThreadPoolExecutor(threads) as pool:
            if load.kind == "at-once":
                callers = pool.map(again_and_again, [began + seconds] * threads)
                latencies = [one for each in callers for one in each]
            else:
                asked = []
                for arrival in arrivals(load.number, seconds):
                    sleep(max(0.0, began + arrival - perf_counter()))
                    asked.append(pool.submit(work, began + arrival))
                latencies = [one.result() for one in asked]
        return latencies, perf_counter() - began, process_time() - before

    return turn


def over_http(url: str, how: str, picture: Path, process: int) -> Turn:
    """A service, asked by a process of its own."""

    def turn(load: Load, seconds: float) -> tuple[list[float], float, float]:
        command = [
            sys.executable,
            HERE / "load.py",
            url,
            how,
            picture,
            load.kind,
            str(load.number),
            str(seconds),
        ]
        before = processor_time(process)
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(ended.stderr)
        told = json.loads(ended.stdout)
        return told["latencies"], told["seconds"], processor_time(process) - before

    return turn


def main(
    models: Annotated[
        str, typer.Option(help="Networks and the pixels on both sides of what they see.")
    ] = "resnet18@224,efficientnet_lite0@192",
    seconds: Annotated[float, typer.Option(help="Length of one turn.")] = 5.0,
    turns: Annotated[int, typer.Option(help="Turns of each contestant at each concurrency.")] = 5,
    pictures: Annotated[str, typer.Option(help="Which pictures are sent: app, phone.")] = "app,phone",
    callers: Annotated[str, typer.Option(help="Concurrencies; with 8 among them also half load.")] = "1,8,32",
) -> None:
    """Measure throughput, latency and processor time by concurrency, and at half load."""
    for model in models.split(","):
        name, _, size = model.partition("@")
        for kind in pictures.split(","):
            compare(name, int(size), seconds, turns, kind, [int(one) for one in callers.split(",")])


def compare(name: str, size: int, seconds: float, turns: int, kind: str, callers: Sequence[int]) -> None:
    """All contestants with one network and one picture."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        picture = folder / "lesion.jpg"
        make_picture(picture, kind)
        bundle = make_bundle(size, name)
        (folder / "model.onnx").write_bytes(bundle.model)
        environment = {
            "BENCH_SIZE": str(size),
            "BENCH_MODEL": str(folder / "model.onnx"),
            "BENTOML_HOME": str(folder / "bentoml"),
            "BENTOML_DO_NOT_TRACK": "True",
            "ORT_DISABLE_TELEMETRY": "1",
            "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
            "DERMFED_STORE": str(folder / "store"),
            "DERMFED_SERVE_RECORDS": str(folder / "records"),
        }
        with Registry.open(environment["DERMFED_REGISTRY_URL"], environment["DERMFED_STORE"]) as registry:
            registry.add([bundle])
            registry.promote("bench", [1], to="production", override_gates=True, reason="a benchmark")
        services = {
            "dermfed": (["-c", "from serving.cli import main; main()"], "/readyz", "/v1/diagnoses", "raw"),
            "FastAPI": (
                ["-m", "uvicorn", "fastapi_service:app", "--log-level", "warning"],
                "/openapi.json",
                "/diagnose",
                "form",
            ),
        }
        if find_spec("fastapi") is None:
            print("FastAPI is not installed and left out; `pip install fastapi` brings it\n")
            del services["FastAPI"]
        contestants = {"limit": loop(bundle, picture.read_bytes())}
        for service, (command, ready, path, how) in services.items():
            port = free_port()
            url = f"http://127.0.0.1:{port}"
            whole = [sys.executable, *command, "--port", str(port)]
            log = folder / f"{service}.log"
            started = running(whole, url + ready, log, environment, HERE / "plain")
            process = stack.enter_context(started).pid
            contestants[service] = over_http(url + path, how, picture, process)
        conditions = {
            "model": f"{name} at {size} px, {len(bundle.model) / 2**20:.0f} MiB",
            "picture": f"{kind}, JPEG, {picture.stat().st_size / 1024:.0f} KiB",
            "turns": f"{turns} of {seconds:g} s each",
        }
        print_conditions("The service beside others", conditions)
        rows, halves = [], {one: Load("a-second", 1.0) for one in contestants}
        for concurrency in callers:
            loads = dict.fromkeys(contestants, Load("at-once", concurrency))
            for one, found in measure(contestants, loads, turns, seconds).items():
                rows.append([concurrency, one, *found.row()])
                if concurrency == 8:
                    halves[one] = Load("a-second", median(found.per_second) / 2)
        if 8 in callers and len(callers) > 1:
            for one, found in measure(contestants, halves, turns, seconds).items():
                rows.append(["half load", one, *found.row()])
        header = [
            "at once",
            "service",
            "pictures a second",
            "of the limit",
            "p50, ms",
            "p99, ms",
            "p99 / p50",
            "processor, ms",
            "of the limit's",
        ]
        print_table(header, rows)


def measure(
    contestants: Mapping[str, Turn], loads: Mapping[str, Load], turns: int, seconds: float
) -> dict[str, Measured]:
    """Every contestant under its load, in turns."""
    measured = {name: Measured() for name in contestants}
    for name, ask in contestants.items():
        ask(loads[name], 1.0)  # to warm up
    for turn in range(turns):
        names = list(contestants)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            measured[name].add(*contestants[name](loads[name], seconds))
    for found in measured.values():
        found.of_limits_processor = median(found.processor) / median(measured["limit"].processor)
        found.of_limit = [
            ours / limit for ours, limit in zip(found.per_second, measured["limit"].per_second, strict=True)
        ]
    return measured


if __name__ == "__main__":
    start(main, "--models resnet18@64,efficientnet_lite0@64 --seconds 0.5 --turns 1 --pictures app")
