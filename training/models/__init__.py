"""Networks: any timm encoder with a classifier, and what is built around it.

- `build`: the model of a job, and its initial weights
- `classifier`, `cases`: pictures, or cases, to logits; the named groups of parameters
- `encoders`: where an encoder's weights come from
- `patches`: pictures as patches, for masked modelling
- `lora`, `probe`: adapters; heads on a frozen encoder's features
- `export`, `saliency`: the ONNX graph, whole and in two parts; class activation maps in it
"""

from training.models.build import ModelConfig, build_model, initial_model
from training.models.classifier import Classifier

__all__ = ["Classifier", "ModelConfig", "build_model", "initial_model"]
