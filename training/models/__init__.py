"""Networks: any timm encoder with a classifier, and what is built around it.

- `build`: the model of a job, and its initial weights
- `classifier`, `cases`: pictures, or cases, to logits; the named groups of parameters
- `encoder_sources`, `encoder_files`, `encoder_loading`: what `model.weights` names, read without running it
- `several_encoders`: several frozen encoders as one; `encoder_inspection`: what a file contains
- `patches`: pictures as patches, for masked modelling
- `lora`, `probe`: adapters; heads on a frozen encoder's features
- `export`, `saliency`: the ONNX graph, whole and in two parts; class activation maps in it
"""

from training.models.build import ModelConfig, build_model, initial_model
from training.models.classifier import Classifier

__all__ = ["Classifier", "ModelConfig", "build_model", "initial_model"]
