"""Predictions, manifests and graphs to test with."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from registry.bundle.labels import ICD10, Coding, Label, Subgroup
from registry.bundle.manifest import BundleManifest, Conformal, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule
from tests.represented import patients_of
from tests.thresholds import at_log_odds, concluding


@pytest.fixture(scope="session")
def predictions() -> Callable[[int, int, int], tuple[np.ndarray, np.ndarray]]:
    """Probabilities `(n, classes)` and labels `(n,)` of unequal classes, better than chance."""

    def draw(seed: int, n: int, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        mix = rng.dirichlet(np.full(num_classes, 0.8))
        labels = rng.choice(num_classes, size=n, p=mix)
        logits = rng.normal(size=(n, num_classes)) + 1.2 * np.eye(num_classes)[labels]
        odds = np.exp(rng.uniform(0.5, 3) * logits)
        return odds / odds.sum(axis=1, keepdims=True), labels

    return draw


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


@pytest.fixture(scope="session")
def manifest() -> Callable[..., BundleManifest]:
    """A calibrated global manifest; keywords replace its parts."""

    def make(**parts: Any) -> BundleManifest:
        given = {
            "model": "skin-lesion",
            "file": ModelFile.of(b"graph"),
            "labels": LABELS,
            "picture": PictureRule(size=8),
            "conformal": Conformal(alpha=0.1, threshold_bin=at_log_odds(-1.5), n=412, guarantee="global"),
            "conclusions": concluding(0.25),
            "lineage": Lineage(job="sha256:" + "0" * 64, recipe="fedauto", seed=0, code_version="0.1.0"),
        }
        subgroup = parts.get("subgroup")
        given["patients_by_tone"] = patients_of(subgroup if isinstance(subgroup, Subgroup) else Subgroup())
        return BundleManifest(**{**given, **parts})

    return make


@pytest.fixture(scope="session")
def onnx_graph() -> Callable[..., bytes]:
    """A graph that scores a picture by its mean colour; keywords break one thing at a time."""

    def make(
        input_name: str = "images",
        input_type: int = TensorProto.UINT8,
        input_shape: tuple[Any, ...] = ("batch", 8, 8, 3),
        outputs: tuple[str, ...] = ("probabilities", "logits", "embedding"),
        weights: np.ndarray | None = None,
        external: str | None = None,
    ) -> bytes:
        given = np.array([[1, 0], [0, 1], [0.5, -1]], np.float32) if weights is None else weights
        matrix = numpy_helper.from_array(given.astype(np.float32), "weights")
        if external is not None:
            matrix.ClearField("raw_data")
            matrix.data_location = TensorProto.EXTERNAL
            entry = matrix.external_data.add()
            entry.key, entry.value = "location", external
        nodes = [
            helper.make_node("Cast", [input_name], ["pixels"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["pixels"], ["embedding"], axes=[1, 2], keepdims=0),
            helper.make_node("MatMul", ["embedding", "weights"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
        ]
        widths = {"probabilities": given.shape[1], "logits": given.shape[1], "embedding": 3}
        graph = helper.make_graph(
            nodes,
            "mean colour",
            [helper.make_tensor_value_info(input_name, input_type, input_shape)],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", widths[name]])
                for name in outputs
            ],
            [matrix],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return model.SerializeToString()

    return make
