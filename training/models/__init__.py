"""Networks: any timm encoder with a classifier, and what is built around it.

- `classifier`, `heads`, `groups`: the model of a job, and the named groups of its parameters
- `patches`: pictures as patches, for masked modelling
- `lora`, `frozen_batchnorm`: variants for personalization
- `export`: the ONNX graph
- `torchvision_ops`: lets timm be imported beside a CPU build of torch
"""

from training.models.classifier import Classifier, ModelConfig, build_model, initial_model

__all__ = ["Classifier", "ModelConfig", "build_model", "initial_model"]
