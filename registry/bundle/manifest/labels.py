"""The labels of a model: its classes, in the order of its outputs."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.frozen import Frozen

Malignancy = Literal["malignant", "premalignant", "benign", "unknown"]


class Coding(Frozen):
    """What a class is called in another system.

    Attributes:
        system: the system's URI, as FHIR names it.
        version: its edition; None where nobody said.
        code: the code there.
        display: the name that the system gives the code; the name of the class where nobody said.
        certain: whether published lists agree on the code; else a terminologist has to look first.
    """

    system: str = Field(min_length=1)
    version: str | None = None
    code: str = Field(min_length=1)
    display: str = Field(min_length=1)
    certain: bool = False


class Label(Frozen):
    """One class of a model.

    Attributes:
        code: the short code in a model's answers (`MEL`).
        name: the name a clinician reads (`Melanoma`).
        malignancy: its kind. Only `malignant` counts towards the malignancy probability; a data set
            that treats a premalignant class as malignant labels it so.
        codings: codes of the class in other systems, see `registry.bundle.manifest.codings`.
    """

    code: str = Field(min_length=1)
    name: str = Field(min_length=1)
    malignancy: Malignancy = "unknown"
    codings: tuple[Coding, ...] = ()


def malignant_classes(labels: Sequence[Label]) -> NDArray[np.bool_]:
    """Which classes are malignant, `(classes,)`.

    Premalignant classes are not (actinic keratosis is treated, but is no cancer yet), and neither
    are classes of unknown kind; a decision warns where a class of unknown kind leaves a doubt.
    """
    return np.array([label.malignancy == "malignant" for label in labels], dtype=np.bool_)
