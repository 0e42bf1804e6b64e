"""The page on which one lesion is tried: the form, and the answer as a clinician reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from registry.bundle.skin_tone.scales import SCALES
from serving.protocol.parameters import Parameters, read_parameters
from serving.protocol.schemas import Diagnosis
from serving.releases.current_release import ServedRelease
from serving.web.case_form import facts, pictures, plain
from serving.web.figures import figures
from serving.web.rendering import render

TONE: Final = "tone"
"""The form's own field: a scale and a value of it, as one choice."""

DECISIONS: Final[Mapping[str, tuple[str, str]]] = {
    "report": ("Report", "The model is confident enough for this answer to be reported to a clinician."),
    "refer": ("Refer", "The model is not sure enough. A clinician has to see the lesion."),
    "retake": ("Take another picture", "This picture cannot be judged."),
}

GUARANTEES: Final[Mapping[str, str]] = {
    "subgroup": "promised for people with the declared skin tone",
    "global": "promised over all skin tones together, not for each of them",
    "none": "not promised: too few pictures to calibrate on, or a skin tone it was not calibrated on",
}

_KINDS: Final[Mapping[str, str]] = {
    "close-up": "a close-up",
    "dermoscopic": "a dermoscopic picture",
    "overview": "an overview",
    "unknown": "a picture of which nobody said the kind",
}

_SCALES: Final[Mapping[str, tuple[str, str]]] = {
    "fitzpatrick": ("Fitzpatrick skin type", "1 burns always, 6 burns never"),
    "monk": ("Monk skin tone", "1 lightest, 10 darkest"),
    "milk10k": ("MILK10k skin tone", "0 darkest, 5 lightest"),
    "ddi": ("DDI group", "pairs of Fitzpatrick types"),
}


@dataclass(frozen=True)
class Choice:
    """A value that can be chosen, and what it is called."""

    value: str
    text: str


def tones(state: ServedRelease) -> list[tuple[str, list[Choice]]]:
    """Skin tones to choose from, by scale: those first that a served version names."""
    used = {
        scale
        for release in state.releases.values()
        for version in release.versions.values()
        for scale in version.version.subgroup.by_scale
    }
    return [
        (
            f"{_SCALES[scale][0]} ({_SCALES[scale][1]})",
            [Choice(f"{scale} {value}", f"{_SCALES[scale][0]} {value}") for value in values],
        )
        for scale, values in sorted(SCALES.items(), key=lambda one: one[0] not in used)
    ]


def read_form(query: Sequence[tuple[str, str]], fields: Mapping[str, str]) -> Parameters:
    """The parameters of the page's form, whose one choice of a tone names the scale too.

    Raises:
        InvalidParameter: as `read_parameters`.
    """
    given = dict(fields)
    scale, _, tone = given.pop(TONE, "").partition(" ")
    if scale:
        given |= {"skin_tone": tone, "skin_tone_scale": scale}
    return read_parameters(query, given)


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
    found = []
    for one in diagnosis.would_help:
        brought = [
            *([f"{one.fewer_classes:g} fewer classes were not ruled out"] if one.fewer_classes else []),
            *(
                [f"{100 * one.more_reported:.0f} more of 100 lesions were reported"]
                if one.more_reported
                else []
            ),
        ]
        named = " and ".join(_KINDS.get(name, plain(name)) for name in one.missing)
        found.append((named[:1].upper() + named[1:], f"in calibration {' and '.join(brought)}"))
    return found


def picture_page(
    state: ServedRelease, diagnosis: Diagnosis | None = None, asked: Parameters | None = None
) -> str:
    """The page, with an answer where there is one.

    Args:
        state: what is served.
        diagnosis: the answer.
        asked: what was asked for, so that the form says it again.
    """
    declared = f"{asked.skin_tone_scale} {asked.skin_tone}" if asked and asked.skin_tone else ""
    return render(
        "picture.html",
        here="picture",
        pictures=pictures(state),
        facts=facts(state, asked.facts if asked else {}),
        given=given(diagnosis) if diagnosis else [],
        help=helpful(diagnosis) if diagnosis else [],
        models=sorted(state.releases),
        model=(asked.model if asked else None) or "",
        scales=tones(state),
        declared=declared,
        diagnosis=diagnosis,
        decision=DECISIONS[diagnosis.decision] if diagnosis else None,
        guarantee=GUARANTEES[diagnosis.prediction_set.guarantee] if diagnosis else None,
        figures=figures(diagnosis) if diagnosis else [],
        names={finding.code: finding.name for finding in diagnosis.findings} if diagnosis else {},
    )
