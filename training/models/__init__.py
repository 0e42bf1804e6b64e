"""Networks: any timm encoder with a classifier, and what is built around it.

- `build`: the model of a job, and the weights it begins with
- `classifier`, `heads`, `groups`: pictures to logits, and the named groups of its parameters
- `cases`, `fusion`, `case_batch`: cases to logits
- `patches`: pictures as patches, for masked modelling
- `lora`, `frozen_batchnorm`: variants for personalization
- `export`, `graph_parts`: the ONNX graph, and that in two parts
- `torchvision_ops`: lets timm be imported beside a CPU build of torch
"""

from training.models.build import ModelConfig, build_model, initial_model
from training.models.classifier import Classifier

__all__ = ["Classifier", "ModelConfig", "build_model", "initial_model"]
