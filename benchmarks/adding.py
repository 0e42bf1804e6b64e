"""Adding large models: how much memory `dermfed-registry add` takes, and how long.

Bundles with models of random weights are written, and added by the command as a process of its own. Told is
the most memory that was resident in it at a time, and the most that a process of its own had: there the model
is loaded into ONNX Runtime and asked (`registry.releases.probe`).
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from onnx import TensorProto, helper, numpy_helper
from quick import print_conditions, print_table, start
from services import NAME, SIZE, small_bundle

from registry.bundle.folder import write_bundle
from registry.bundle.manifest import ModelFile
from registry.registry import Registry

# Of itself the kernel's VmHWM: `getrusage` tells of a new process what the one that started it had.
COMMAND = """
import re, resource, sys
from pathlib import Path
from registry.cli.app import main
try:
    main()
finally:
    own = re.search(r"VmHWM:\\s*([0-9]+) kB", Path("/proc/self/status").read_text())[1]
    print(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def large_model(megabytes: int, seed: int) -> bytes:
    """A graph that answers for two classes by a square matrix of so many megabytes."""
    random, width = np.random.default_rng(seed), round((megabytes * 1e6 / 4) ** 0.5)
    shapes = {"first": (3, width), "large": (width, width), "last": (width, 2)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape, np.float32) / np.float32(shape[0]) ** 0.5, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels"], ["colour"], axes=[1, 2], keepdims=0),
        helper.make_node("Div", ["colour", "most"], ["embedding"]),
        helper.make_node("MatMul", ["embedding", "first"], ["wide"]),
        helper.make_node("MatMul", ["wide", "large"], ["wider"]),
        helper.make_node("MatMul", ["wider", "last"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    outputs = {"probabilities": 2, "logits": 2, "embedding": 3}
    graph = helper.make_graph(
        nodes,
        "a large matrix",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", SIZE, SIZE, 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", n]) for name, n in outputs.items()],
        [*weights, numpy_helper.from_array(np.float32(255), "most")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


def write_bundles(folder: Path, bundles: int, megabytes: int) -> list[Path]:
    """Writes so many bundles of so many megabytes each."""
    folders = []
    for seed in range(bundles):
        model = large_model(megabytes, seed)
        manifest = small_bundle(seed).manifest.model_copy(update={"file": ModelFile.of(model)})
        folders.append(folder / f"bundle-{seed}")
        write_bundle(folders[-1], manifest, model)
    return folders


def measured(url: str, store: Path, *words: object) -> tuple[float, float, float]:
    """Runs a command: the megabytes of it and of its largest child, and the seconds that passed."""
    command = [sys.executable, "-c", COMMAND, "--url", url, "--store", str(store), *map(str, words)]
    began = perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = perf_counter() - began
    if ended.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {ended.stderr}")
    own, child = (int(kibibytes) * 1024 / 1e6 for kibibytes in ended.stderr.split()[-2:])
    return own, child, seconds


def main(
    bundles: Annotated[int, typer.Option(help="How many bundles are added together.")] = 4,
    megabytes: Annotated[int, typer.Option(help="Of the weights of each.")] = 150,
) -> None:
    """Add large bundles, add them again, and promote one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folders = write_bundles(folder, bundles, megabytes)
        url, store = f"sqlite:///{folder / 'registry.db'}", folder / "store"
        Registry.open(url, str(store)).close()
        reason = ("--override-gates", "--reason", "a benchmark")
        rows = {
            "list, to compare with": measured(url, store, "list"),
            f"add, {bundles} bundles": measured(url, store, "add", *folders),
            "add, the same again": measured(url, store, "add", *folders),
            "promote, one of them": measured(url, store, "promote", NAME, 1, "--to", "production", *reason),
        }
    print_conditions(
        "Adding large models",
        {
            "bundles": f"{bundles} of {megabytes} MB of weights each",
            "megabytes": "the most that were resident",
        },
    )
    print_table(
        ["command", "its own MB", "MB of a child", "seconds"],
        [[told, *(f"{figure:,.0f}" for figure in row[:2]), f"{row[2]:.1f}"] for told, row in rows.items()],
    )


if __name__ == "__main__":
    start(main, "--bundles 2 --megabytes 1")
