import numpy as np
import pytest
import torch

from training.data.dataset import Cases, Examples
from training.models import Classifier

SIZE = 16
NAN = np.nan


def stirred(model: Classifier, by: float = 0.2, seed: int = 1) -> Classifier:
    """The model with weights that no layer has at the start, for answers."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=random))
    return model.eval()


@pytest.fixture(scope="module")
def examples() -> Examples:
    images = np.random.default_rng(0).integers(0, 256, (9, SIZE, SIZE, 3), dtype=np.uint8)
    pictures = np.array([[0, 1, -1], [2, -1, -1], [3, 4, 5], [6, -1, -1], [7, 8, -1]])
    kinds = np.array([[1, 2, -1], [2, -1, -1], [1, 1, 2], [0, -1, -1], [2, 0, -1]])
    context = np.array([[70, 1], [NAN, 0], [NAN, NAN], [NAN, NAN], [33, NAN]], np.float32)
    numbers = np.arange(len(kinds))
    return Examples(
        images, pictures[:, 0], numbers % 2, 0 * numbers, numbers, cases=Cases(pictures, kinds, context)
    )
