"""Batch normalisation over a batch that several processes divide among them."""

import torch

from training.models.classifier import Classifier
from training.models.torchvision_ops import prepare_torchvision


def synchronised(model: Classifier, device: str) -> Classifier:
    """A model whose batch normalisations gather statistics over all processes, under the same names.

    torch's `SyncBatchNorm` computes on GPUs alone; on a processor the model is left as it is.

    Args:
        model: the model, whose parameters are taken over.
        device: where it will be: `auto`, `cpu` or `cuda`.
    """
    if device == "cpu" or not torch.cuda.is_available():
        return model
    prepare_torchvision()
    from timm.layers import convert_sync_batchnorm

    converted: Classifier = convert_sync_batchnorm(model)
    return converted
