"""What a map costs an answer: the same picture with and without, and by a graph that has none.

One picture, from its bytes to the JSON of its diagnosis, in this process and on one thread: decoded, shown to
EfficientNet-Lite0, decided, written. HTTP is not in it and would make every ratio smaller. Each round asks
all three in another order; a figure is the median over rounds of the ratio within a round, of processor time,
with an interval of 95 % by order statistics.

Criteria, fixed before the first run: an answer with its map takes at most 1.10 times as long as one without,
by the upper end; and one without, of a graph that has a map, at most 1.03 times as long as of a graph that
has none.

    python benchmarks/map_latency.py --rounds 200
"""

import io
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import onnx
import torch
import typer
from numpy.typing import NDArray
from PIL import Image
from quick import is_quick, start
from tables import print_conditions, print_table, write_table

sys.path.insert(0, str(Path(__file__).parents[1]))  # before this folder, which has a `serving` too

from clients.data.synthetic.cases import case_of
from clients.data.synthetic.draw import draw
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import Label
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile
from registry.bundle.model import MAP
from registry.bundle.pictures.rule import PictureRule
from registry.records import Version
from serving.inference.batcher import run_batch
from serving.inference.predictor import LoadedVersion, build_diagnosis, decode
from serving.protocol.parameters import Parameters
from training.models import ModelConfig, build_model
from training.models.export import export_graph

TABLE = Path("docs/results/tables/map-latency.csv")
CLASSES = 11


def without_map(content: bytes) -> bytes:
    """The same graph as it was before there were maps."""
    model = onnx.load_from_string(content)
    kept = [one for one in model.graph.output if one.name != MAP]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    return model.SerializeToString()


def version_of(content: bytes, size: int) -> LoadedVersion:
    """A version of this graph."""
    file = ModelFile.of(content)
    manifest = BundleManifest(
        model="latency",
        file=file,
        labels=tuple(
            Label(code=f"C{one}", name=f"Class {one}", malignancy="benign") for one in range(CLASSES)
        ),
        picture=PictureRule(size=size),
        lineage=Lineage(job="sha256:" + "0" * 64, recipe="none", seed=0, code_version="0"),
    )
    digest = bundle_digest(manifest)
    version = Version("latency", 1, digest, manifest.subgroup, datetime.now(UTC))
    return LoadedVersion.of(version, Bundle(manifest, content, digest))


def answer(loaded: LoadedVersion, picture: bytes, *, explain: bool) -> int:
    """The bytes of an answer, from those of a picture."""
    decoded = decode(loaded, [picture], 10**8, explain=explain)
    (outputs,) = run_batch(loaded.graph, [decoded.request])
    assert not isinstance(outputs, Exception)
    asked = Parameters(explain=explain)
    told = build_diagnosis(loaded, decoded, outputs, asked, "unknown-tone", request_id="0")
    assert bool(told.explanation and told.explanation.maps) == explain
    return len(told.model_dump_json())


def median(ratios: NDArray[np.float64]) -> str:
    """The median, with an interval of 95 % by order statistics."""
    ranked, n = np.sort(ratios), len(ratios)
    reach = 0.98 * np.sqrt(n)
    low, high = ranked[max(0, int(n / 2 - reach))], ranked[min(n - 1, int(np.ceil(n / 2 + reach)))]
    return f"{np.median(ratios):.3f} [{low:.3f}, {high:.3f}]"


def main(
    rounds: Annotated[int, typer.Option(help="How often each is asked.")] = 200,
    size: Annotated[int, typer.Option(help="Pixels on both sides.")] = 224,
    out: Annotated[Path, typer.Option(help="The table.")] = TABLE,
) -> None:
    """Time answers."""
    torch.set_num_threads(1)
    print_conditions("What a map costs", {"rounds": rounds, "size": size, "classes": CLASSES})
    model = build_model(ModelConfig(name="tf_efficientnet_lite0"), CLASSES, 0).eval()
    with torch.no_grad():
        model.encoder.get_classifier().weight.normal_(0, 0.1)
    content = export_graph(model, size)
    file = io.BytesIO()
    Image.fromarray(draw(case_of(0, 0), 450)).resize((600, 450)).save(file, format="JPEG", quality=90)
    picture = file.getvalue()
    with_map, plain = version_of(content, size), version_of(without_map(content), size)
    ways: dict[str, Callable[[], int]] = {
        "a graph without a map": lambda: answer(plain, picture, explain=False),
        "a graph with one, not asked": lambda: answer(with_map, picture, explain=False),
        "asked": lambda: answer(with_map, picture, explain=True),
    }
    names = list(ways)
    times = np.zeros((rounds, len(ways)))
    sizes = {name: way() for name, way in ways.items()}  # and warmed up
    random = np.random.default_rng(0)
    for turn in times:
        for place in random.permutation(len(names)):
            began = time.process_time()
            ways[names[place]]()
            turn[place] = time.process_time() - began
    rows = [
        [
            name,
            f"{1000 * np.median(times[:, place]):.1f}",
            median(times[:, place] / times[:, 0]),
            median(times[:, place] / times[:, 1]),
            sizes[name],
        ]
        for place, name in enumerate(names)
    ]
    header = ("answer", "ms", "times as long as without a map", "times as long as not asked", "bytes of JSON")
    print_table(header, rows)
    if not is_quick():
        write_table(out, header, rows)


if __name__ == "__main__":
    start(main, "--rounds 2 --size 64")
