"""Let timm be imported beside a CPU build of torch.

The package index serves torchvision as a CUDA build. Its compiled part cannot load beside a CPU torch,
and torchvision then stops at import because two operators that it decorates are unknown. timm needs
torchvision's Python part alone, so declaring the two schemas is enough. With a matching pair of builds
this module loads the compiled part and declares nothing.
"""

import importlib.util
from pathlib import Path

import torch

SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def prepare_torchvision() -> None:
    """Load torchvision's operators, or declare the two that its import needs."""
    if hasattr(torch.ops.torchvision, "nms"):
        return
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return
    for library in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except OSError:  # built for CUDA libraries that are not here
            continue
        return
    for name, schema in SCHEMAS.items():
        torch.library.define(f"torchvision::{name}", schema)
