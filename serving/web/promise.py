"""What an answer rests on, in sentences: what was given, what is promised for it, and what would help."""

from collections.abc import Mapping
from typing import Final

from registry.bundle.manifest.schema import Guarantee
from registry.bundle.message import Message, Number, both
from serving.protocol.schemas import Diagnosis, MissingInput
from serving.web.case_form import plain
from serving.web.numbers import percent

_KINDS: Final[Mapping[str, Message]] = {
    "close-up": Message("a close-up"),
    "dermoscopic": Message("a dermoscopic picture"),
    "overview": Message("an overview"),
    "unknown": Message("a picture of which nobody said the kind"),
}

_OF_PICTURES: Final[Mapping[Guarantee, str]] = {
    "subgroup": Message(
        "Such lists hold the right answer for {coverage} of pictures; that is promised for people with the "
        "declared skin tone."
    ),
    "global": Message(
        "Such lists hold the right answer for {coverage} of pictures; that is promised over all skin tones "
        "together, not for each of them."
    ),
    "none": Message(
        "Nothing is promised for this list: too few pictures to calibrate on, or a skin tone it was not "
        "calibrated on."
    ),
}
_OF_LESIONS: Final[Mapping[Guarantee, str]] = {
    **_OF_PICTURES,
    "subgroup": Message(
        "Such lists hold the right answer for {coverage} of lesions; that is promised for people with the "
        "declared skin tone."
    ),
    "global": Message(
        "Such lists hold the right answer for {coverage} of lesions; that is promised over all skin tones "
        "together, not for each of them."
    ),
}


def promise(diagnosis: Diagnosis) -> list[Message]:
    """What is promised for the list of what is not ruled out, and on how many lesions that rests."""
    found = diagnosis.prediction_set
    templates = _OF_PICTURES if diagnosis.inputs is None else _OF_LESIONS
    said = [Message(templates[found.guarantee], coverage=percent(found.coverage))]
    if found.calibration_n:
        said.append(
            Message.counted(
                "It was calibrated on {n} lesion.", "It was calibrated on {n} lesions.", found.calibration_n
            )
        )
    return said


def given(diagnosis: Diagnosis) -> list[Message]:
    """What was used of a case, an item each; nothing where the model takes single pictures."""
    if diagnosis.inputs is None:
        return []
    inputs = diagnosis.inputs
    return [
        *(_KINDS.get(kind, Message(kind)) for kind in inputs.pictures),
        *(
            Message("{fact}: {value}", fact=Message(plain(name)), value=Message(plain(value)))
            for name, value in inputs.facts.items()
        ),
    ]


def helpful(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What would help, with what it brought in calibration."""
    return [
        (both([_KINDS.get(name, Message(plain(name))) for name in one.missing]), both(_brought(one)))
        for one in diagnosis.would_help
    ]


def _brought(one: MissingInput) -> list[Message]:
    said = []
    if one.fewer_classes:
        fewer = Number(f"{one.fewer_classes:g}")
        said.append(Message("{fewer} fewer classes were not ruled out", fewer=fewer))
    if one.more_reported:
        more = Number(f"{100 * one.more_reported:.0f}")
        said.append(Message("{more} more of 100 lesions were reported", more=more))
    return said
