"""A bundle whose model takes cases, small enough to compute its answers by hand.

Its logits are the mean over pictures of their mean colours through `WEIGHTS`, each times what `BY_KIND` says
of its kind, plus the known facts through `BY_FACT`. Its embedding is the mean of the mean colours.
"""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from registry.bundle.cases import AGE, SEX, SITE, CaseInput, read_pattern
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import ICD10, Coding, Label, Subgroup
from registry.bundle.manifest import (
    BundleManifest,
    Conformal,
    Lineage,
    ModelFile,
    PatternCalibration,
    Temperature,
)
from registry.bundle.pictures.rule import PictureRule
from tests.measured import evaluation_of
from tests.represented import patients_of
from tests.thresholds import at_log_odds, concluding

SIZE = 8
CASE = CaseInput(slots=3, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX, SITE))
LABELS = (
    Label(
        code="MEL",
        name="Melanoma",
        malignancy="malignant",
        codings=(Coding(system=ICD10, code="C43.9", display="Melanoma"),),
    ),
    Label(code="NV", name="Melanocytic naevus", malignancy="benign"),
    Label(code="AK", name="Actinic keratosis", malignancy="premalignant"),
)
WEIGHTS = np.array([[0.02, 0, 0], [0, 0.02, 0], [0, 0, 0.02]])
BY_KIND = np.array([1.0, 1.3, 0.6])  # unknown, close-up, dermoscopic
BY_FACT = np.array([[0.01, -0.01, 0.02], [-0.3, 0.3, 0], [0.2, -0.05, 0]])


def case_graph(case: CaseInput = CASE, size: int = SIZE) -> bytes:
    """The graph; without facts it has no input `context`."""
    wide = len(LABELS)
    constants = {
        "weights": WEIGHTS.astype(np.float32),
        "by_kind": BY_KIND[: 1 + len(case.kinds)].astype(np.float32),
        "by_fact": BY_FACT[: len(case.facts)].astype(np.float32),
        "zero_kind": np.array(0, np.int64),
        "last": np.array([2], np.int64),
        "slots_axis": np.array([1], np.int64),
        "no_number": np.array(0, np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        node("ReduceMean", ["pixels"], ["colours"], axes=[2, 3], keepdims=0),  # (batch, slots, 3)
        node("Less", ["kinds", "zero_kind"], ["empty"]),
        node("Not", ["empty"], ["there"]),
        node("Cast", ["there"], ["present"], to=TensorProto.FLOAT),  # (batch, slots)
        node("ReduceSum", ["present", "slots_axis"], ["count"], keepdims=1),  # (batch, 1)
        node("Unsqueeze", ["present", "last"], ["present_3"]),
        node("Mul", ["colours", "present_3"], ["seen"]),
        node("ReduceSum", ["seen", "slots_axis"], ["summed"], keepdims=0),
        node("Div", ["summed", "count"], ["embedding"]),
        node("Max", ["kinds", "zero_kind"], ["places"]),
        node("Gather", ["by_kind", "places"], ["scale"]),
        node("Unsqueeze", ["scale", "last"], ["scale_3"]),
        node("Mul", ["seen", "scale_3"], ["scaled"]),
        node("ReduceSum", ["scaled", "slots_axis"], ["scaled_sum"], keepdims=0),
        node("Div", ["scaled_sum", "count"], ["fused"]),
        node("MatMul", ["fused", "weights"], ["of_pictures" if case.facts else "logits"]),
    ]
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", "slots", size, size, 3])
    inputs = [images, helper.make_tensor_value_info("kinds", TensorProto.INT64, ["batch", "slots"])]
    if case.facts:
        inputs.append(helper.make_tensor_value_info("context", TensorProto.FLOAT, ["batch", len(case.facts)]))
        nodes += [
            node("IsNaN", ["context"], ["missing"]),
            node("Where", ["missing", "no_number", "context"], ["known"]),
            node("MatMul", ["known", "by_fact"], ["of_facts"]),
            node("Add", ["of_pictures", "of_facts"], ["logits"]),
        ]
    nodes.append(node("Softmax", ["logits"], ["probabilities"], axis=-1))
    graph = helper.make_graph(
        nodes,
        "cases",
        inputs,
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
            for name, width in {"probabilities": wide, "logits": wide, "embedding": 3}.items()
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def case_logits(pictures: list[tuple[np.ndarray, int]], context: np.ndarray) -> np.ndarray:
    """The logits `(labels,)` of one case.

    Args:
        pictures: pixels `(size, size, 3)`, each with the number of its kind.
        context: the facts `(facts,)`, NaN where one is not known.
    """
    fused = [BY_KIND[kind] * pixels.astype(np.float64).mean(axis=(0, 1)) for pixels, kind in pictures]
    return np.mean(fused, axis=0) @ WEIGHTS + np.nan_to_num(context) @ BY_FACT[: len(context)]


def softmax(logits: np.ndarray) -> np.ndarray:
    """The probabilities of logits `(classes,)`."""
    odds = np.exp(logits - logits.max())
    return odds / odds.sum()


def rules(name: str, set_from: float, reported_from: float, size: float, reported: float) -> Any:
    """The calibration of a pattern; thresholds are log-odds."""
    return PatternCalibration(
        pattern=read_pattern(name),
        temperature=Temperature(value=1.0, n=90),
        conformal=Conformal(alpha=0.1, threshold_bin=at_log_odds(set_from), n=90, guarantee="global"),
        conclusions=concluding(reported_from),
        set_size=size,
        reported=reported,
    )


PATTERNS = (
    rules("close-up", -3.0, 1.0, 2.4, 0.4),
    rules("close-up+some context", -2.5, 0.75, 2.1, 0.5),
    rules("close-up+context", -2.0, 0.5, 1.9, 0.55),
    rules("dermoscopic", -2.5, 0.5, 2.0, 0.5),
    rules("close-up+dermoscopic", -2.0, 0.25, 1.5, 0.7),
    rules("close-up+dermoscopic+some context", -2.0, 0.25, 1.5, 0.7),
    rules("close-up+dermoscopic+context", -1.5, 0.25, 1.3, 0.8),
)


def case_bundle(*, model: str = "skin-lesion", case: CaseInput = CASE, seed: int = 0, **parts: Any) -> Bundle:
    """A calibrated bundle of that graph; each `seed` makes another one, keywords replace parts of it."""
    graph = case_graph(case)
    given = {
        "model": model,
        "file": ModelFile.of(graph),
        "labels": LABELS,
        "picture": PictureRule(size=SIZE),
        "case": case,
        "patients_by_tone": patients_of(parts.get("subgroup", Subgroup())),
        "patterns": tuple(one for one in PATTERNS if one.pattern.within(case)),
        "conformal": Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=412, guarantee="global"),
        "conclusions": concluding(0.25),
        "evaluation": evaluation_of(parts.pop("metrics", {"accuracy": 0.8, "n": 100})),
        "lineage": Lineage(job="sha256:" + "0" * 64, recipe="fedauto", seed=seed, code_version="0.1.0"),
    }
    manifest = BundleManifest(**{**given, **parts})
    return Bundle(manifest, graph, bundle_digest(manifest))
