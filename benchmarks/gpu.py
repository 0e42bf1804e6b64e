"""The service on a GPU beside bare sessions with batches, in one run on one machine.

bare: what a server of models does at the least (as Triton does): a decoder on every core, one thread that
takes up to the largest batch of what is decoded and shows it to an ONNX Runtime session on the GPU, inputs
and outputs bound; no HTTP, no checks, no decisions. pixels: the same without decoding, which says what the
GPU itself can do. dermfed: `dermfed-serve`, one worker, asked over HTTP by a process of its own.

They take turns, as in `serving.py`, at 1, 8, 32 and 128 callers. Where there is no GPU, `--device cpu` runs
the same on the processor.
"""

import os
import queue
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import onnxruntime
import typer
from quick import lack, start
from services import free_port, running
from tables import print_conditions, print_table

from registry.bundle.folder import Bundle
from registry.bundle.model import INPUT, OUTPUTS, PROCESSOR, open_session
from registry.bundle.pictures.rule import decode_picture
from registry.registry import Registry
from serving import Load, Turn, make_bundle, make_picture, measure, over_http

HERE = Path(__file__).parent
PROVIDERS = {
    "cuda": (("CUDAExecutionProvider", {"cudnn_conv_algo_search": "HEURISTIC"}), (PROCESSOR, {})),
    "cpu": ((PROCESSOR, {}),),
}


class Batcher:
    """One thread that shows a session as many pictures as wait, up to the largest batch."""

    def __init__(self, bundle: Bundle, device: str, max_batch: int) -> None:
        """Opens the session and starts the thread."""
        if device == "cuda":
            onnxruntime.preload_dlls()
        self._session = open_session(bundle.model, 1, PROVIDERS[device])
        if self._session.get_providers()[0] != PROVIDERS[device][0][0]:
            lack(f"a GPU: ONNX Runtime took {self._session.get_providers()}; or --device cpu")
        self._max_batch = max_batch
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def show(self, pixels: np.ndarray) -> None:
        """One picture; returns with its answer."""
        answer: Future[Any] = Future()
        self._waiting.put((pixels, answer))
        answer.result()

    def close(self) -> None:
        """Ends the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < self._max_batch:
                try:
                    batch.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            if ends := batch[-1] is None:
                batch.pop()
            binding = self._session.io_binding()
            binding.bind_cpu_input(INPUT, np.stack([pixels for pixels, _ in batch]))
            for name in OUTPUTS:
                binding.bind_output(name, "cpu")
            self._session.run_with_iobinding(binding)
            answers = binding.copy_outputs_to_cpu()[0]
            for (_, answer), row in zip(batch, answers, strict=True):
                answer.set_result(row)
            if ends:
                return


@contextmanager
def bare(bundle: Bundle, picture: bytes, device: str, max_batch: int, *, decodes: bool) -> Iterator[Turn]:
    """A batcher, asked by threads; each decodes the picture, or they share one that is decoded."""
    batcher, cores = Batcher(bundle, device, max_batch), threading.BoundedSemaphore(os.cpu_count() or 1)
    ready = decode_picture(picture, bundle.manifest.picture)

    def pixels() -> np.ndarray:
        if not decodes:
            return ready
        with cores:
            return decode_picture(picture, bundle.manifest.picture)

    def again_and_again(until: float) -> list[float]:
        latencies = []
        while (came := perf_counter()) < until:
            batcher.show(pixels())
            latencies.append(perf_counter() - came)
        return latencies

    def turn(load: Load, seconds: float) -> tuple[list[float], float, float]:
        began, before, callers = perf_counter(), process_time(), int(load.number)
        with ThreadPoolExecutor(callers) as pool:
            latencies = [
                one for each in pool.map(again_and_again, [began + seconds] * callers) for one in each
            ]
        return latencies, perf_counter() - began, process_time() - before

    try:
        yield turn
    finally:
        batcher.close()


def main(
    model: Annotated[str, typer.Option(help="A network and the pixels that it sees.")] = "resnet18@224",
    device: Annotated[str, typer.Option(help="cuda or cpu.")] = "cuda",
    callers: Annotated[str, typer.Option(help="How many ask at once.")] = "1,8,32,128",
    max_batch: Annotated[int, typer.Option(help="The largest batch.")] = 32,
    seconds: Annotated[float, typer.Option(help="Length of one turn.")] = 5.0,
    turns: Annotated[int, typer.Option(help="Turns of each at each number of callers.")] = 5,
) -> None:
    """Measure throughput and latency on a GPU, beside bare sessions with batches."""
    name, _, size = model.partition("@")
    if device not in PROVIDERS:
        raise typer.BadParameter(f"{device!r}; there are {', '.join(PROVIDERS)}", param_hint="--device")
    if PROVIDERS[device][0][0] not in onnxruntime.get_available_providers():
        lack("onnxruntime-gpu; `pip install dermfed[serve-gpu]` in an environment without onnxruntime")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        picture = folder / "lesion.jpg"
        make_picture(picture)
        bundle = make_bundle(int(size), name)
        most = max(int(number) for number in callers.split(","))
        environment = {
            "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
            "DERMFED_STORE": str(folder / "store"),
            "DERMFED_SERVE_RECORDS": str(folder / "records"),
            "DERMFED_SERVE_PROVIDERS": device,
            "DERMFED_SERVE_MAX_BATCH": str(max_batch),
            "DERMFED_SERVE_QUEUE": str(2 * most),
            "BENTOML_HOME": str(folder / "bentoml"),
        }
        with Registry.open(environment["DERMFED_REGISTRY_URL"], environment["DERMFED_STORE"]) as registry:
            registry.add([bundle])
            registry.promote("bench", [1], to="production", override_gates=True, reason="a benchmark")
        port, sent = free_port(), picture.read_bytes()
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
        started = running(command, f"{url}/readyz", folder / "log", environment, HERE / "plain")
        process = stack.enter_context(started).pid
        # `limit` is what ratios are given to: see `measure`.
        kinds: dict[str, Callable[[], Turn]] = {
            "limit": lambda: stack.enter_context(bare(bundle, sent, device, max_batch, decodes=True)),
            "pixels": lambda: stack.enter_context(bare(bundle, sent, device, max_batch, decodes=False)),
            "dermfed": lambda: over_http(f"{url}/v1/diagnoses", "raw", picture, process),
        }
        contestants = {kind: make() for kind, make in kinds.items()}
        conditions = {
            "model": f"{name} at {size} px, batches of up to {max_batch}, on {device}",
            "onnxruntime": onnxruntime.__version__,
            "picture": f"1280 x 960 JPEG, {picture.stat().st_size / 1024:.0f} KiB",
            "turns": f"{turns} of {seconds:g} s each",
        }
        print_conditions("The service on a GPU beside bare sessions", conditions)
        rows = []
        for number in map(int, callers.split(",")):
            loads = dict.fromkeys(contestants, Load("at-once", number))
            for kind, found in measure(contestants, loads, turns, seconds).items():
                rows.append([number, "bare" if kind == "limit" else kind, *found.row()])
        header = ["callers", "what", "pictures a second", "of bare", "p50, ms", "p99, ms", "p99 / p50"]
        print_table([*header, "processor, ms"], rows)


if __name__ == "__main__":
    start(main, "--device cpu --model resnet18@64 --callers 1,4 --max-batch 4 --seconds 0.5 --turns 1")
