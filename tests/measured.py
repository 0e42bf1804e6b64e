"""Manifests with the figures that a run writes: predictions are drawn, counted, summed and summarised."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from registry.bundle.conclusions import Tree
from registry.bundle.counting import Block, count
from registry.bundle.counts import Thresholds
from registry.bundle.evaluation import (
    AnswerCounts,
    ClassCounts,
    Decided,
    Difference,
    Evaluation,
    Fairness,
    GroupCounts,
    KindCounts,
    ReferenceHistograms,
    SubgroupHistograms,
)
from registry.bundle.labels import UNDECLARED, Label, Subgroup, kind_of_each, malignant_classes
from registry.bundle.manifest import BundleManifest, Conformal, Lineage, ModelFile, WorkingPoint
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.metrics.selective import OF_KINDS
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
GROUPED = (
    Label(code="BCC", name="Basal cell", malignancy="malignant", group="keratinocyte cancer"),
    Label(code="SCC", name="Squamous cell", malignancy="malignant", group="keratinocyte cancer"),
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
)
TONES = {"light": ("1", "2", "3"), "dark": ("4", "5", "6")}
PARTS = 2  # hospitals
RULES = Thresholds(at_log_odds(-1.5), at_log_odds(-1.0), at_log_odds(-2.0), at_log_odds(1.5))


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
    malignant, tree = malignant_classes(labels), Tree(labels)
    nodes = replace(rules, nodes=(at_log_odds(0.5),) * len(tree.nodes))
    mix = rng.dirichlet(np.full(len(labels), 1.5))
    for name, n in sizes.items():
        for _ in range(PARTS):
            truth = rng.choice(len(labels), size=n, p=mix)
            logits = rng.normal(size=(n, len(labels))) + skill * np.eye(len(labels))[truth]
            odds = np.exp(1.5 * logits)
            probabilities = odds / odds.sum(axis=1, keepdims=True)
            lesions = rng.integers(0, max(3 * n // 4, 1), size=n)
            block = count(
                probabilities,
                truth,
                malignant=malignant,
                lesions=lesions,
                smallest_cell=smallest,
                thresholds=rules,
                kinds=kind_of_each(labels),
                concluded=tree.count(probabilities, truth, malignant, nodes),
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
    fair_over = [name for name in blocks if name != UNDECLARED]
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
    reference = ReferenceHistograms.from_counts(
        of_all.point,
        by_subgroup=tested if subgroup.is_global else (),
        smallest_cell=smallest,
        parts=PARTS * len(blocks),
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
        "working_point": point if has_point else None,
        "evaluation": Evaluation.of(blocks, labels, fair_over, reference),
        "reference": reference,
        "lineage": Lineage(job="sha256:" + "0" * 64, recipe="fedauto", seed=0, code_version="0.1.0"),
    }
    return BundleManifest(**{**given, **parts})


def evaluation_of(metrics: Mapping[str, Any]) -> Evaluation | None:
    """The evaluation with these metrics, or some: counts where they are whole, else estimates."""
    if not metrics:
        return None
    groups = {name: _group(row or {}) for name, row in (metrics.get("by_subgroup") or {}).items()}
    found: dict[str, Any] = {"all": _group(metrics), "by_subgroup": groups}
    if metrics.get("by_class"):
        n = sum(row["n"] for row in metrics["by_class"].values())
        found["by_class"] = {code: _class(row, n) for code, row in metrics["by_class"].items()}
    if fairness := metrics.get("fairness"):
        found["fairness"] = Fairness(
            spread_standardised=fairness.get("spread_standardised"), intervals=_intervals(fairness)
        )
    if "differences" in metrics:
        found["differences"] = tuple(Difference(**one) for one in metrics["differences"])
    found["intersections"] = {
        column: {
            value: {name: None if cell is None else _group(cell) for name, cell in cells.items()}
            for value, cells in values.items()
        }
        for column, values in metrics.get("intersections", {}).items()
    }
    return Evaluation(**found, **{name: metrics[name] for name in ("absent", "missing") if name in metrics})


PARTS_OF = {"right": ("accuracy", "n"), "found": ("malignant_sensitivity", "n_malignant")}
PARTS_OF |= {"cleared": ("malignant_specificity", "n_other")}
DECIDED = {
    "covered": ("coverage", "n"),
    "set_classes": ("set_size", "n"),
    "answered": ("answered", "n"),
    "reported": ("reported", "n"),
    "suspicious": ("sensitivity_at_threshold", "n_malignant"),
    "not_suspicious": ("specificity_at_threshold", "n_other"),
    "ruled_out_malignant": ("ruled_out_malignant", "n_malignant"),
    "ruled_out_other": ("ruled_out_other", "n_other"),
    "urgent_malignant": ("urgent_malignant", "n_malignant"),
    "urgent_other": ("urgent_other", "n_other"),
}


def _group(row: Mapping[str, Any]) -> GroupCounts:
    known = {name: row[name] for name in ("n", "n_malignant", "n_other") if row.get(name) is not None}
    scalars = {
        name: value
        for name, value in row.items()
        if not name.startswith("n") and (value is None or isinstance(value, int | float))
    }
    counted, derived = dict(known), set()
    for name, (share, of) in PARTS_OF.items():
        if (count := _whole(row.get(share), row.get(of))) is not None:
            counted[name] = count
            derived.add(share)
    sums = {name: _whole(row.get(share), row.get(of)) for name, (share, of) in DECIDED.items()}
    reported = sums["reported"]
    sums["reported_wrong"] = 0 if reported == 0 else _whole(row.get("reported_risk"), reported)
    derived |= {share for name, (share, _) in DECIDED.items() if sums[name] is not None}
    derived |= {"reported_risk"} if sums["reported_wrong"] is not None else set()
    if any(count is not None for count in sums.values()):
        counted["decided"] = Decided(**sums)
    estimates = {name: value for name, value in scalars.items() if name not in derived}
    kinds = {kind: _kind(of) for kind, of in row.get("by_kind", {}).items()}
    answers = {node: AnswerCounts(**of) for node, of in row.get("by_answer", {}).items()}
    return GroupCounts(
        **counted, by_kind=kinds, by_answer=answers, estimates=estimates, intervals=_intervals(row)
    )


def of_kind(n: int, **shares: int) -> dict[str, Any]:
    """The metrics of a kind of malignancy: of `n` pictures so many found, suspicious, ruled out, urgent."""
    found = {name: shares[share] for name, share in OF_KINDS.items() if share in shares}
    ends = {name: list(clopper_pearson(x, n)) for name, x in found.items()}
    return {"n": n, **{name: x / n for name, x in found.items()}, "intervals": ends}


def _kind(row: Mapping[str, Any]) -> KindCounts:
    shares = {share: round(row[name] * row["n"]) for name, share in OF_KINDS.items() if name in row}
    return KindCounts(**{"n": row["n"], "found": 0, **shares}, intervals=_intervals(row))


def _class(row: Mapping[str, Any], n: int) -> ClassCounts:
    right = round((row.get("recall") or 0) * row["n"])
    others = n - row["n"]
    cleared = row.get("specificity")
    given = right + others - round(cleared * others) if cleared is not None else (right or None)
    areas = {name: row.get(name) for name in ("auroc", "auprc")}
    return ClassCounts(n=row["n"], right=right, given=given if row["n"] else None, **areas)


def _whole(share: float | None, n: int | None) -> int | None:
    if share is None or not n or abs(share * n - round(share * n)) > 1e-6:
        return None
    return round(share * n)


def _intervals(row: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    return {name: (ends[0], ends[1]) for name, ends in (row.get("intervals") or {}).items() if ends}
