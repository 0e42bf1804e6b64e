"""Networks: any timm encoder with a classifier, and the named groups of its parameters."""

from training.models.classifier import Classifier, ModelConfig, build_model, initial_model

__all__ = ["Classifier", "ModelConfig", "build_model", "initial_model"]
