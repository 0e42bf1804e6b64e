"""Services to be measured, ready when they are handed out, and a model that costs next to nothing."""

import io
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import Label
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule


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


SIZE = 32
NAME = "bench"


def small_bundle(seed: int, picture: PictureRule | None = None) -> Bundle:
    """A bundle with two classes; each seed makes another one."""
    weights = np.random.default_rng(seed).normal(0, 0.02, (3, 2)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels"], ["embedding"], axes=[1, 2], keepdims=0),
        helper.make_node("MatMul", ["embedding", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    outputs = {"probabilities": 2, "logits": 2, "embedding": 3}
    graph = helper.make_graph(
        nodes,
        "mean colour",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", SIZE, SIZE, 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", n]) for name, n in outputs.items()],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    content = model.SerializeToString()
    manifest = BundleManifest(
        model=NAME,
        file=ModelFile.of(content),
        labels=(
            Label(code="B", name="Benign", malignancy="benign"),
            Label(code="M", name="Malignant", malignancy="malignant"),
        ),
        picture=picture or PictureRule(size=SIZE),
        lineage=Lineage(job="sha256:" + "0" * 64, recipe="none", seed=seed, code_version="0"),
    )
    return Bundle(manifest, content, bundle_digest(manifest))


def small_picture(form: str, side: int = 64, seed: int = 0) -> bytes:
    """A picture of noise, in one of the formats."""
    noise = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, form)
    return file.getvalue()
