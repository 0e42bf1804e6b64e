"""A model that costs next to nothing, so that what is around it is measured: it looks at the mean colour."""

import io

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule

SIZE = 32
NAME = "bench"


def small_bundle(seed: int, subgroup: Subgroup | None = None, picture: PictureRule | None = None) -> Bundle:
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
        subgroup=subgroup or Subgroup(),
        lineage=Lineage(job="sha256:" + "0" * 64, recipe="none", seed=seed, code_version="0"),
    )
    return Bundle(manifest, content, bundle_digest(manifest))


def one_of_eight(seed: int, subgroup: Subgroup | None = None) -> Bundle:
    """A bundle of its own with one of eight models, since each model is probed once in a process."""
    given = small_bundle(seed % 8, subgroup)
    lineage = given.manifest.lineage.model_copy(update={"seed": seed})
    manifest = given.manifest.model_copy(update={"lineage": lineage})
    return Bundle(manifest, given.model, bundle_digest(manifest))


def small_picture(form: str, side: int = 64, seed: int = 0) -> bytes:
    """A picture of noise, in one of the formats."""
    noise = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, form)
    return file.getvalue()
