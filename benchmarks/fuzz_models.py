"""Models with spoilt bytes, through the probe that stands before `add` and `promote`.

    python benchmarks/fuzz_models.py --models 400

Sound models, of single pictures and of cases, are changed: every other one in its bytes, by bits, runs, cuts
and copies; the others in what they compute, by operators, inputs, constants and attributes. Each is probed
under a manifest that names what came out. A finding is any exception that is no `BundleRefused`, a probe that
takes longer than its limit by the clock, and a model that passed and then answers something that is not
finite. Each is told with its bytes, kept under --out. Exits 1 where there are any.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from quick import start
from tables import print_table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from registry.bundle.errors import GraphError  # noqa: E402
from registry.bundle.manifest import BundleManifest, ModelFile  # noqa: E402
from registry.bundle.model import Graph  # noqa: E402
from registry.errors import BundleRefused  # noqa: E402
from registry.releases import probe  # noqa: E402
from registry.releases.probe import WALL, probe_model  # noqa: E402

STARTING = 10  # seconds that a child may take to start and end, on a core that others want too
OPERATORS = ("Log", "Sqrt", "Reciprocal", "Exp", "Neg", "Div", "Pow", "Relu", "Identity", "ConstantOfShape",
             "Expand", "Tile", "NonZero", "Range", "Shape", "Dropout", "TopK", "Mod")  # fmt: skip
FLOATS = (np.nan, np.inf, -np.inf, 3e38, 1e-45, 0.0, -1e9)
INTEGERS = (-(2**62), -1, 0, 1, 7, 2**31, 2**40, 2**62)
REASONS = {
    "is refused": "refused at the header",
    "does not load": "does not load",
    "misbehaves": "misbehaves",
    "more memory": "takes too much memory",
    "seconds of one core": "does not end",
    "crashes": "crashes",
    "was killed": "was killed",
    "export it again": "takes or answers something else",
}


def seeds() -> list[tuple[BundleManifest, bytes]]:
    """Sound models with their manifests."""
    from tests.case_bundles import case_bundle
    from tests.registry.conftest import draw_bundle

    return [(one.manifest, one.model) for one in (draw_bundle(), case_bundle())]


def spoilt(content: bytes, random: np.random.Generator) -> bytes:
    """The bytes with one to three changes."""
    changed = bytearray(content)
    for _ in range(random.integers(1, 4)):
        place = int(random.integers(0, len(changed)))
        length = int(random.integers(1, 9))
        kind = random.integers(0, 6)
        if kind == 0:
            changed[place] ^= 1 << int(random.integers(0, 8))
        elif kind == 1:
            changed[place : place + length] = random.bytes(length)
        elif kind == 2:
            del changed[place : place + length]
        elif kind == 3:
            changed[place:place] = changed[place : place + 8 * length]
        elif kind == 4:  # a number that is as large as one can be, or not a number
            changed[place : place + 4] = [b"\xff\xff\xff\x7f", b"\x00\x00\xc0\x7f"][length % 2]
        else:
            changed[place] = [0, 1, 0x7F, 0x80, 0xFF][length % 5]
    return bytes(changed)


def recomputed(content: bytes, random: np.random.Generator) -> bytes:
    """A model that is written soundly and computes something else, after one to three changes."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(content)
    nodes = model.graph.node
    for _ in range(random.integers(1, 4)):
        node = nodes[random.integers(0, len(nodes))]
        kind = random.integers(0, 4)
        if kind == 0:
            node.op_type = str(random.choice(OPERATORS))
        elif kind == 1:
            other = nodes[random.integers(0, len(nodes))]
            node.input[random.integers(0, len(node.input))] = str(
                random.choice([*other.output, *(one.name for one in model.graph.initializer)])
            )
        elif kind == 2:
            tensor = model.graph.initializer[random.integers(0, len(model.graph.initializer))]
            values = numpy_helper.to_array(tensor).copy().reshape(-1)
            numbers = FLOATS if values.dtype.kind == "f" else INTEGERS
            values[random.integers(0, len(values))] = random.choice(numbers)
            shape = numpy_helper.to_array(tensor).shape
            tensor.CopyFrom(numpy_helper.from_array(values.reshape(shape), tensor.name))
        elif node.attribute:
            node.attribute[random.integers(0, len(node.attribute))].i = int(random.choice(INTEGERS))
    return model.SerializeToString()


def finding(model: bytes, manifest: BundleManifest, seconds: int, told: Counter[str]) -> str | None:
    """What is wrong with how a model was probed; None where nothing is."""
    began = time.monotonic()
    try:
        probe_model(model, manifest, "the bundle")
    except BundleRefused as error:
        told[next((name for words, name in REASONS.items() if words in str(error)), "refused otherwise")] += 1
    except Exception as error:  # noqa: BLE001 - each is a finding
        return f"{type(error).__name__}: {error}"
    else:
        told["passed"] += 1
        try:
            answer(Graph(model))
        except GraphError as error:
            return f"passed, and then: {error}"
    took = time.monotonic() - began
    return f"took {took:.0f} seconds" if took > WALL * seconds + STARTING else None


def answer(graph: Graph) -> None:
    """Asks a graph about a grey picture, which no probe shows."""
    grey = np.full((1, graph.size, graph.size, 3), 128, np.uint8)
    if graph.takes_cases:
        graph.run_cases(grey[:, None], np.zeros((1, 1), np.int64), np.zeros((1, graph.num_facts), np.float32))
    else:
        graph.run(grey)


def main(
    models: Annotated[int, typer.Option(help="how many spoilt models")] = 400,
    seconds: Annotated[int, typer.Option(help="of a core that each has")] = 5,
    seed: int = 0,
    out: Annotated[Path | None, typer.Option(help="where findings are kept")] = None,
) -> None:
    """Probes spoilt models and tells what became of them."""
    setattr(probe, "SECONDS", seconds)  # noqa: B010 - it is final but for this
    random = np.random.default_rng(seed)
    told: Counter[str] = Counter()
    findings = 0
    sound = seeds()
    began = time.monotonic()
    for number in range(models):
        manifest, content = sound[number % len(sound)]
        model = (spoilt if number // len(sound) % 2 else recomputed)(content, random)
        manifest = manifest.model_copy(update={"file": ModelFile.of(model)})
        if (wrong := finding(model, manifest, seconds, told)) is not None:
            out = out or Path(tempfile.mkdtemp(prefix="fuzz-"))
            out.mkdir(parents=True, exist_ok=True)
            (out / f"finding-{findings}.onnx").write_bytes(model)
            findings += 1
            print(f"FINDING {wrong}", flush=True)
    print_table(["what", "how often"], [(name, f"{count:,}") for name, count in told.most_common()])
    print(f"{models} models in {time.monotonic() - began:.0f} seconds; findings: {findings or 'none'}")
    if findings:
        print(f"kept in {out}")
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--models 6")
