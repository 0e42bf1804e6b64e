"""Assessing the quality of one picture by all rules that apply to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from registry.bundle.pictures.rule import PictureRule
from serving.inference.quality.measures import measure
from serving.inference.quality.rules import (
    QualityIssue,
    blurred,
    colours_unknown,
    light,
    nothing_to_see,
    too_small,
)
from serving.protocol.schemas import Quality


@dataclass(frozen=True)
class QualityAssessment:
    """The quality issues of a picture; mostly none."""

    issues: tuple[QualityIssue, ...] = ()

    @property
    def acceptable(self) -> bool:
        """Whether the picture can be judged; else the answer is `retake`."""
        return not any(issue.bad for issue in self.issues)

    @property
    def shown(self) -> Quality:
        """The quality as a diagnosis reports it."""
        return Quality(acceptable=self.acceptable, issues=[issue.text for issue in self.issues])


def of_all(qualities: Sequence[QualityAssessment], kinds: Sequence[str]) -> QualityAssessment:
    """The quality of several pictures of a lesion, of which each has to be good; issues say of which."""
    return QualityAssessment(
        tuple(
            replace(
                issue,
                text=f"Picture {number} ({kind}): {issue.text}",
            )
            for number, (quality, kind) in enumerate(zip(qualities, kinds, strict=True), start=1)
            for issue in quality.issues
        )
    )


def assess_quality(
    width: int,
    height: int,
    rule: PictureRule,
    pixels: NDArray[np.uint8],
    unused_profile: str | None = None,
) -> QualityAssessment:
    """Assesses the quality of a picture.

    A rule applies only where its result would mean something: nothing of a picture that was blown up,
    nothing but the light where there was too little or too much of it, not the blur where there is nothing
    to be sharp.

    Args:
        width: of the picture as it was sent, pixels.
        height: likewise.
        rule: how the model wants its pictures.
        pixels: the picture as the model sees it, `(size, size, 3)` RGB.
        unused_profile: why its colour profile was not applied; None where it has none, or it was.
    """
    issues = [colours_unknown(unused_profile)] if unused_profile else []
    if small := too_small(width, height, rule):
        return QualityAssessment((small, *issues))
    found = measure(pixels)
    if found is None:
        return QualityAssessment(tuple(issues))
    for ask in (light, nothing_to_see, blurred):
        if issue := ask(found):
            issues.append(issue)
            if issue.bad:
                break
    return QualityAssessment(tuple(issues))
