"""The quality of one picture, by all rules that can be asked of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.picture import PictureRule
from serving.quality.measures import measure
from serving.quality.rules import Issue, blurred, light, nothing_to_see, too_small
from serving.schemas import Quality


@dataclass(frozen=True)
class Judged:
    """What is wrong with a picture; mostly nothing."""

    issues: tuple[Issue, ...] = ()

    @property
    def acceptable(self) -> bool:
        """Whether the picture can be judged; else the answer is `retake`."""
        return not any(issue.bad for issue in self.issues)

    @property
    def shown(self) -> Quality:
        """As an answer tells it."""
        return Quality(acceptable=self.acceptable, issues=[issue.text for issue in self.issues])


def judge(width: int, height: int, rule: PictureRule, pixels: NDArray[np.uint8]) -> Judged:
    """The quality of a picture.

    A rule is asked only where its answer would mean something: nothing of a picture that was blown up,
    nothing but the light where there was too little or too much of it, not the blur where there is nothing
    to be sharp.

    Args:
        width: of the picture as it was sent, pixels.
        height: likewise.
        rule: how the model wants its pictures.
        pixels: the picture as the model sees it, `(size, size, 3)` RGB.
    """
    if small := too_small(width, height, rule):
        return Judged((small,))
    found = measure(pixels)
    if found is None:
        return Judged()
    issues: list[Issue] = []
    for ask in (light, nothing_to_see, blurred):
        if issue := ask(found):
            issues.append(issue)
            if issue.bad:
                break
    return Judged(tuple(issues))
