"""What a model may answer: its classes, in the order of its outputs."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.frozen import Frozen

Malignancy = Literal["malignant", "premalignant", "benign", "unknown"]


class Label(Frozen):
    """One class.

    Attributes:
        code: the short code in a model's answers (`MEL`).
        name: the name a clinician reads (`Melanoma`).
        malignancy: its kind. Only `malignant` counts towards the malignancy probability; a data set
            that treats a premalignant class as malignant labels it so.
        coding: codes of the class in other systems (`{"icd10": "C43.9"}`).
    """

    code: str = Field(min_length=1)
    name: str = Field(min_length=1)
    malignancy: Malignancy = "unknown"
    coding: dict[str, str] = Field(default_factory=dict)


def malignant_classes(labels: Sequence[Label]) -> NDArray[np.bool_]:
    """Which classes are malignant, `(classes,)`.

    Premalignant classes are not (actinic keratosis is treated, but is no cancer yet), and neither
    are classes of unknown kind; a decision warns where a class of unknown kind leaves a doubt.
    """
    return np.array([label.malignancy == "malignant" for label in labels], dtype=np.bool_)
