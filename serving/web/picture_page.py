"""The page on which one lesion is tried: the form, and the answer as a clinician reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from registry.bundle.cases import CaseInput, CategoryFact, Kind, NumberFact
from registry.bundle.labels import Label
from registry.bundle.skin_tone import SCALES
from serving.protocol.parameters import Parameters, read_parameters
from serving.protocol.schemas import Diagnosis
from serving.releases.current_release import ServedRelease
from serving.web.answer import SERIOUS, Looked, figures, given, helpful, promise, verdict
from serving.web.outcome_page import form_of
from serving.web.rendering import plain, render

ANY: Final = "image"
"""The field of a picture of no kind in particular."""

_PICTURES: Final[Mapping[Kind, tuple[str, str]]] = {
    "close-up": ("close_up", "A close-up of the lesion"),
    "dermoscopic": ("dermoscopic", "A dermoscopic picture of it"),
    "overview": ("overview", "A picture that shows where it is"),
}
_FACTS: Final[Mapping[str, str]] = {
    "age": "Age",
    "sex": "Sex",
    "site": "Where on the body",
}


def pictures(cases: Sequence[CaseInput | None]) -> list[dict[str, Any]]:
    """The fields for pictures, of all models that are served: name, text, and whether it is needed."""
    kinds = dict.fromkeys(kind for case in cases if case for kind in case.kinds)
    fields = [_PICTURES[kind] for kind in kinds]
    if not kinds:
        fields = [(ANY, "A photograph of one lesion")]
    elif any(case is None or not case.kinds for case in cases):
        fields.insert(0, (ANY, "A photograph of one lesion, of no kind in particular"))
    return [{"name": name, "text": text, "needed": not kinds} for name, text in fields]


def facts(cases: Sequence[CaseInput | None], given: Mapping[str, str]) -> list[dict[str, Any]]:
    """The fields for facts, of all models that are served: name, text, value given before, and what may be.

    Args:
        cases: what each model takes.
        given: the facts that the form says again.
    """
    known = {fact.name: fact for case in cases if case for fact in case.facts}
    return [
        {
            "name": name,
            "text": _title(fact),
            "given": given.get(name, ""),
            "choices": [] if fact.kind == "number" else [(value, plain(value)) for value in fact.values],
            **({"low": fact.low, "high": fact.high} if fact.kind == "number" else {}),
        }
        for name, fact in known.items()
    ]


def _title(fact: NumberFact | CategoryFact) -> str:
    said = _FACTS.get(fact.name) or plain(fact.name).capitalize()
    if fact.kind == "number" and fact.unit:
        return f"{said} ({fact.unit})"
    return said


TONE: Final = "tone"
"""The form's own field: a scale and a value of it, as one choice."""

_SCALES: Final[Mapping[str, tuple[str, str]]] = {
    "fitzpatrick": ("Fitzpatrick skin type", "1 burns always, 6 burns never"),
    "monk": ("Monk skin tone", "1 lightest, 10 darkest"),
    "milk10k": ("MILK10k skin tone", "0 darkest, 5 lightest"),
    "ddi": ("DDI group", "pairs of Fitzpatrick types"),
}


def tones(state: ServedRelease) -> list[tuple[str, list[tuple[str, str]]]]:
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
            [(f"{scale} {value}", f"{_SCALES[scale][0]} {value}") for value in values],
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
        asked: the parameters of the request, to fill in the form.
        keeps_answers: whether answers are kept so that their outcomes can be given.
        gives_outcomes: whether the user may give them.
        labels: of the version that answered, in its own order.
        looked: where the model looked in each picture.
    """
    cases = [one.manifest.case for release in state.releases.values() for one in release.versions.values()]
    named = [(one.code, one.name, one.malignancy == "malignant") for one in labels]
    # Where another picture is asked for, that one's answer is to be judged.
    gives = diagnosis and gives_outcomes and diagnosis.decision != "retake"
    return render(
        "picture.html",
        here="picture",
        pictures=pictures(cases),
        facts=facts(cases, asked.facts if asked else {}),
        models=sorted(state.releases),
        keeps_answers=keeps_answers,
        gives_outcomes=gives_outcomes,
        form=form_of(diagnosis.id, named) if diagnosis and gives else None,
        model=(asked.model if asked else None) or "",
        scales=tones(state),
        declared=f"{asked.skin_tone_scale} {asked.skin_tone}" if asked and asked.skin_tone else "",
        diagnosis=diagnosis,
        looked=looked,
        **(_answer(diagnosis) if diagnosis else {}),
    )


def _answer(diagnosis: Diagnosis) -> dict[str, Any]:
    """The page's values for the answer, in addition to the diagnosis itself."""
    return {
        "verdict": verdict(diagnosis),
        "given": given(diagnosis),
        "help": helpful(diagnosis),
        "promise": promise(diagnosis),
        "figures": figures(diagnosis),
        "by_code": {finding.code: finding for finding in diagnosis.findings},
        "serious_kinds": SERIOUS,
    }
