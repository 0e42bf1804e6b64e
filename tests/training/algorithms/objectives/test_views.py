"""The views that contrastive objectives show: two for each picture, unlike each other and the picture."""

import pytest
import torch

from training.algorithms.objectives.byol import BYOL
from training.algorithms.objectives.moco import MoCo
from training.algorithms.objectives.mocov3 import MoCoV3
from training.algorithms.objectives.simclr import SimCLR
from training.models.case_batch import to_model_input


def colours(picture):
    """The colours of a picture wherever they are, the same however it is mirrored."""
    return picture.flatten(1).T.unique(dim=0)


@pytest.mark.parametrize("objective", [SimCLR(), MoCo(), MoCoV3(), BYOL()], ids=lambda one: one.name)
def test_the_views_of_a_picture_differ_in_more_than_mirroring(begin_followed, work_of, objective):
    task, *_ = begin_followed(objective)
    examples = work_of("north", "0-pretrain").examples
    for batch in task.batches(0):
        pictures = to_model_input(examples.batch(batch.positions), torch.device("cpu"))
        first, second = batch.images.chunk(2)
        for one, other, picture in zip(first, second, pictures, strict=True):
            sets = [colours(shown) for shown in (one, other, picture)]
            for place, left in enumerate(sets):
                assert not any(torch.equal(left, right) for right in sets[place + 1 :])


@pytest.mark.parametrize("objective", [SimCLR(), MoCo(), MoCoV3(), BYOL()], ids=lambda one: one.name)
def test_by_default_a_view_may_lose_its_place_its_colour_and_its_sharpness(objective):
    """Chen et al. 2020, appendix A: cropped to a fifth and more, 80 % jittered, 20 % grey, half blurred."""
    shown = objective.augment
    assert shown.crop == (0.2, 1.0)
    assert shown.flip
    assert (shown.colour_probability, shown.grey_probability, shown.blur_probability) == (0.8, 0.2, 0.5)
    assert min(shown.brightness, shown.contrast, shown.saturation) == 0.4
    assert shown.hue == 0.1
