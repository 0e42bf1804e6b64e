"""Manifests with the figures that a run writes: predictions are drawn, counted, summed and summarised."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from registry.bundle.counts.counting import Block, count
from registry.bundle.counts.counts import Thresholds
from registry.bundle.labels import UNDECLARED, Label, Subgroup, malignant_classes
from registry.bundle.manifest import (
    Abstention,
    BundleManifest,
    Conformal,
    Lineage,
    ModelFile,
    ReferenceHistograms,
    SubgroupHistograms,
    WorkingPoint,
)
from registry.bundle.metrics.selective import decided
from registry.bundle.metrics.summary import summarise
from registry.bundle.pictures.rule import PictureRule
from tests.represented import patients_of
from tests.thresholds import at_log_odds

TWO = (
    Label(code="NV", name="Naevus", malignancy="benign"),
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
)
FIVE = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
    Label(code="BCC", name="Basal cell carcinoma", malignancy="malignant"),
    Label(code="AK", name="Actinic keratosis", malignancy="premalignant"),
    Label(code="DF", name="Dermatofibroma", malignancy="benign"),
)
TONES = {"light": ("1", "2", "3"), "dark": ("4", "5", "6")}
PARTS = 2  # hospitals
RULES = Thresholds(at_log_odds(-1.5), at_log_odds(0.5), at_log_odds(-1.0))


def blocks_of(
    rng: np.random.Generator,
    labels: Sequence[Label],
    sizes: Mapping[str, int],
    *,
    skill: float = 1.5,
    smallest: int = 5,
    rules: Thresholds = RULES,
) -> dict[str, Block]:
    """The counts of each subgroup, of two hospitals; some lesions have several pictures."""
    found: dict[str, Block] = {}
    malignant = malignant_classes(labels)
    mix = rng.dirichlet(np.full(len(labels), 1.5))
    for name, n in sizes.items():
        for _ in range(PARTS):
            truth = rng.choice(len(labels), size=n, p=mix)
            logits = rng.normal(size=(n, len(labels))) + skill * np.eye(len(labels))[truth]
            odds = np.exp(1.5 * logits)
            lesions = rng.integers(0, max(3 * n // 4, 1), size=n)
            block = count(
                odds / odds.sum(axis=1, keepdims=True),
                truth,
                malignant=malignant,
                lesions=lesions,
                smallest_cell=smallest,
                thresholds=rules,
            )
            found[name] = found[name] + block if name in found else block
    return found


def manifest_of(
    blocks: Mapping[str, Block],
    labels: Sequence[Label],
    subgroup: Subgroup | None = None,
    *,
    smallest: int = 5,
    rules: Thresholds = RULES,
    **parts: Any,
) -> BundleManifest:
    """The manifest of a model with these counts, as the stage `calibrate` writes it."""
    of_all = reduce(add, blocks.values())
    details = {name: decided(block.decisions) for name, block in blocks.items() if block.decisions}
    fair_over = [name for name in blocks if name != UNDECLARED]
    figures = summarise(blocks, labels, fair_over, details)
    assert of_all.decisions is not None
    thresholds = decided(of_all.decisions)
    subgroup = subgroup or Subgroup()
    own = {name: Subgroup(name=name, scale="fitzpatrick", values=TONES[name]) for name in fair_over}
    merged = {"smallest_cell": smallest, "parts": PARTS}
    tested = tuple(
        SubgroupHistograms.from_counts(blocks[name].point, subgroup=each, **merged)
        for name, each in own.items()
    )
    has_point = rules.malignant_from is not None and malignant_classes(labels).any()
    point = WorkingPoint(
        target=0.9,
        level=0.95,
        threshold_bin=rules.malignant_from or 0,
        sensitivity_low=0.91,
        n=60,
        reached=True,
    )
    given: dict[str, Any] = {
        "model": "skin-lesion",
        "file": ModelFile.of(b"graph"),
        "labels": tuple(labels),
        "picture": PictureRule(size=8),
        "subgroup": subgroup,
        "patients_by_tone": patients_of(subgroup),
        "conformal": Conformal(
            alpha=0.1,
            threshold_bin=rules.set_from,
            n=100,
            guarantee="global" if subgroup.is_global else "subgroup",
        ),
        "abstention": Abstention(target_risk=0.3, threshold_bin=rules.report_from, n=100, risk=0.1),
        "working_point": point if has_point else None,
        "metrics": {
            **figures,
            **thresholds,
            "intervals": {**figures["intervals"], **thresholds["intervals"]},
        },
        "reference": ReferenceHistograms.from_counts(
            of_all.point,
            by_subgroup=tested if subgroup.is_global else (),
            smallest_cell=smallest,
            parts=PARTS * len(blocks),
        ),
        "lineage": Lineage(job="sha256:" + "0" * 64, recipe="fedauto", seed=0, code_version="0.1.0"),
    }
    return BundleManifest(**{**given, **parts})
