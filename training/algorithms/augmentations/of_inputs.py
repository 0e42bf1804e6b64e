"""Augmentation of whatever a classifier takes: pictures, the pictures of cases, or features, which stay."""

from dataclasses import replace

import torch

from training.algorithms.augmentations.batch import AugmentConfig, augment
from training.models.case_batch import CaseBatch, Inputs


def augment_inputs(inputs: Inputs, config: AugmentConfig, generator: torch.Generator) -> Inputs:
    """The inputs with every picture changed by a draw of its own; the pictures of a case are each its own.

    Features of a frozen encoder are left as they are: what they are of was changed before it saw it.
    """
    if isinstance(inputs, CaseBatch):
        if inputs.images.ndim == 3:
            return inputs
        present = inputs.present
        images = inputs.images.clone()
        images[present] = augment(inputs.images[present], config, generator)
        return replace(inputs, images=images)
    return augment(inputs, config, generator) if inputs.ndim == 4 else inputs
