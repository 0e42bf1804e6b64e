"""The page on which one lesion is tried: the form, and the answer as a clinician reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from registry.bundle.labels import Label
from registry.bundle.skin_tone import SCALES
from serving.protocol.parameters import Parameters, read_parameters
from serving.protocol.schemas import Diagnosis
from serving.releases.current_release import ServedRelease
from serving.web.case_form import facts, pictures
from serving.web.figures import figures
from serving.web.looked_at import Looked
from serving.web.outcome_page import OutcomeForm, form_of
from serving.web.promise import given, helpful, promise
from serving.web.rendering import render
from serving.web.verdict import SERIOUS, verdict

TONE: Final = "tone"
"""The form's own field: a scale and a value of it, as one choice."""

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

    The page always asks where the model looked.

    Raises:
        InvalidParameter: as `read_parameters`.
    """
    given = dict(fields)
    scale, _, tone = given.pop(TONE, "").partition(" ")
    if scale:
        given |= {"skin_tone": tone, "skin_tone_scale": scale}
    return replace(read_parameters(query, given), explain=True)


def picture_page(
    state: ServedRelease,
    diagnosis: Diagnosis | None = None,
    asked: Parameters | None = None,
    *,
    keeps_answers: bool = False,
    gives_outcomes: bool = False,
    labels: Sequence[Label] = (),
    looked: Sequence[Looked] = (),
) -> str:
    """The page, with an answer where there is one.

    Args:
        state: what is served.
        diagnosis: the answer.
        asked: what was asked for, so that the form says it again.
        keeps_answers: whether answers are kept so that their outcomes can be given.
        gives_outcomes: whether whoever asks may give them.
        labels: of the version that answered, in its own order.
        looked: where the model looked in each picture.
    """
    declared = f"{asked.skin_tone_scale} {asked.skin_tone}" if asked and asked.skin_tone else ""
    return render(
        "picture.html",
        here="picture",
        pictures=pictures(state),
        facts=facts(state, asked.facts if asked else {}),
        models=sorted(state.releases),
        keeps_answers=keeps_answers,
        gives_outcomes=gives_outcomes,
        form=_outcome_form(diagnosis, labels) if diagnosis and gives_outcomes else None,
        model=(asked.model if asked else None) or "",
        scales=tones(state),
        declared=declared,
        diagnosis=diagnosis,
        looked=looked,
        **(_answer(diagnosis) if diagnosis else {}),
    )


def _outcome_form(diagnosis: Diagnosis, labels: Sequence[Label]) -> OutcomeForm | None:
    """None where another picture is asked for: that one's answer is to be judged."""
    return None if diagnosis.decision == "retake" else form_of(diagnosis.id, labels)


def _answer(diagnosis: Diagnosis) -> dict[str, Any]:
    """What the answer's part of the page shows beside the diagnosis itself."""
    return {
        "verdict": verdict(diagnosis),
        "given": given(diagnosis),
        "help": helpful(diagnosis),
        "promise": promise(diagnosis),
        "figures": figures(diagnosis),
        "by_code": {finding.code: finding for finding in diagnosis.findings},
        "serious_kinds": SERIOUS,
    }
