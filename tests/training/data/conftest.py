import numpy as np
import pytest

from training.data.dataset import Cases, Examples

COUNT = 600


@pytest.fixture
def examples() -> Examples:
    """Cases: two thirds have pictures of both kinds, one third a dermoscopic one alone; three facts."""
    numbers = np.arange(COUNT)
    both = numbers % 3 > 0
    pictures = np.stack([3 * numbers, np.where(both, 3 * numbers + 1, -1), np.full(COUNT, -1)], axis=1)
    kinds = np.stack([np.where(both, 1, 2), np.where(both, 2, -1), np.full(COUNT, -1)], axis=1)
    context = np.stack([numbers % 90, numbers % 2, numbers % 8], axis=1).astype(np.float32)
    names = np.stack([np.random.default_rng(0).integers(-(2**63), 2**63, COUNT), numbers], axis=1)
    images = np.zeros((3 * COUNT, 8, 8, 3), np.uint8)
    return Examples(
        images, 3 * numbers, numbers % 2, 0 * numbers, numbers, None, names, Cases(pictures, kinds, context)
    )
