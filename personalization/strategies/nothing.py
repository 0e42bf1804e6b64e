"""No training: every personal model is the global model.

v = w*: what every other strategy is compared with, and the way to calibrate one global model for each
subgroup by itself. There is no epoch but epoch 0, so that no hospital is asked to train; what is reported of
validation is the global model's.
"""

from typing import Literal

from personalization.strategies.base import WithoutEpochs


class NoTraining(WithoutEpochs):
    """Nothing moves."""

    name: Literal["none"] = "none"
