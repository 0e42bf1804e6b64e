"""What an answer rests on, in sentences: what was given, what is promised for it, and what would help."""

from collections.abc import Mapping
from typing import Final

from registry.bundle.manifest import Guarantee
from serving.protocol.schemas import Diagnosis, MissingInput
from serving.web.case_form import plain
from serving.web.numbers import percent

_KINDS: Final[Mapping[str, str]] = {
    "close-up": "a close-up",
    "dermoscopic": "a dermoscopic picture",
    "overview": "an overview",
    "unknown": "a picture of which nobody said the kind",
}

_OF_PICTURES: Final[Mapping[Guarantee, str]] = {
    "subgroup": (
        "Such lists hold the right answer for {coverage} of pictures; that is promised for people with the "
        "declared skin tone."
    ),
    "global": (
        "Such lists hold the right answer for {coverage} of pictures; that is promised over all skin tones "
        "together, not for each of them."
    ),
    "none": (
        "Nothing is promised for this list: too few pictures to calibrate on, or a skin tone it was not "
        "calibrated on."
    ),
}
_OF_LESIONS: Final[Mapping[Guarantee, str]] = {
    **_OF_PICTURES,
    "subgroup": (
        "Such lists hold the right answer for {coverage} of lesions; that is promised for people with the "
        "declared skin tone."
    ),
    "global": (
        "Such lists hold the right answer for {coverage} of lesions; that is promised over all skin tones "
        "together, not for each of them."
    ),
}


def promise(diagnosis: Diagnosis) -> list[str]:
    """What is promised for the list of what is possible, and on how many lesions that rests."""
    found = diagnosis.prediction_set
    templates = _OF_PICTURES if diagnosis.inputs is None else _OF_LESIONS
    said = [templates[found.guarantee].format(coverage=percent(found.coverage))]
    if found.calibration_n:
        said.append(
            (
                "It was calibrated on {n} lesion."
                if found.calibration_n == 1
                else "It was calibrated on {n} lesions."
            ).format(n=found.calibration_n)
        )
    return said


def given(diagnosis: Diagnosis) -> list[str]:
    """What was used of a case, an item each; nothing where the model takes single pictures."""
    if diagnosis.inputs is None:
        return []
    inputs = diagnosis.inputs
    return [
        *(_KINDS.get(kind, kind) for kind in inputs.pictures),
        *(f"{plain(name)}: {plain(value)}" for name, value in inputs.facts.items()),
    ]


def helpful(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What would help, with what it brought in calibration."""
    return [
        (" and ".join([_KINDS.get(name, plain(name)) for name in one.missing]), " and ".join(_brought(one)))
        for one in diagnosis.would_help
    ]


def _brought(one: MissingInput) -> list[str]:
    said = []
    if one.fewer_classes:
        fewer = f"{one.fewer_classes:g}"
        said.append(f"{fewer} fewer classes were possible")
    if one.more_reported:
        more = f"{100 * one.more_reported:.0f}"
        said.append(f"{more} more of 100 lesions were reported")
    return said
