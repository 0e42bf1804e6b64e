"""Pages for clinicians: on one a lesion is tried, with the form and the answer as a clinician reads it.

On the others the outcome of an answer is given: it is found again by its number, weeks later.

Two clicks give an outcome: the diagnosis, and a button for how it was established. Nothing is preselected:
diseases are listed in the version's own order, and the model's answer is folded away, since a user who sees
it first is biased towards it. The Enter key presses the first button, which is hidden and does not say how
the diagnosis was established: the page then asks for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

from registry.bundle.cases import CaseInput, CategoryFact, Kind, NumberFact
from registry.bundle.labels import Label
from registry.bundle.skin_tone import SCALES
from registry.outcomes.intake import read_confirmed_by, read_date
from registry.outcomes.store import ConfirmedBy, Outcome, OutcomeRefused, SaidOutcome, SeenAnswer
from serving.protocol.parameters import Parameters, read_parameters
from serving.protocol.problems import InvalidParameter, ProblemResponse
from serving.protocol.schemas import Diagnosis
from serving.releases.current_release import ServedRelease
from serving.web.answer import SERIOUS, Looked, figures, given, helpful, promise, verdict
from serving.web.rendering import plain, render

ANSWERS: Final = "/diagnoses"
"""Where an answer is looked for; that of one is below it."""

CONFIRMED: Final[Mapping[ConfirmedBy, str]] = {
    "histopathology": "Histopathology",
    "dermatologist": "Dermatologist",
    "follow-up": "Follow-up",
}
_DECISIONS: Final[Mapping[str, str]] = {
    "report": "reported",
    "refer": "referred to a dermatologist",
    "retake": "another picture asked for",
}
_FIELDS: Final = frozenset({"label", "confirmed_by", "date", "instead_of"})
_MOST_FIELDS: Final = 8
_LONGEST_NUMBER: Final = 18


Form = dict[str, Any]
"""The values of `outcome_form.html`."""


def form_of(
    id_: str,
    labels: Sequence[tuple[str, str, bool]],
    sent: Mapping[str, str] | None = None,
    current: SaidOutcome | None = None,
) -> Form:
    """The form in which an outcome of an answer is given.

    Args:
        id_: of the diagnosis.
        labels: code, name and whether malignant of each disease, in the version's own order.
        sent: what was sent and not taken, so that the form says it again.
        current: the outcome that stands and would be corrected, if there is one.
    """
    today, sent = datetime.now(UTC).date(), sent or {}
    try:
        day = read_date(sent.get("date", ""))
    except OutcomeRefused:
        day = today
    return {
        "action": f"{ANSWERS}/{id_}",
        "diseases": [
            {"code": code, "name": name, "malignant": malignant, "chosen": code == sent.get("label")}
            for code, name, malignant in labels
        ],
        "day": day.isoformat(),
        "last": (today + timedelta(days=1)).isoformat(),
        "instead_of": current.number if current else "",
        "takes_back": current.confirmed_by if current and current.label is not None else "",
        "confirmed": CONFIRMED.items(),
    }


def answer_page(
    seen: SeenAnswer,
    names: Mapping[str, str],
    sent: Mapping[str, str] | None = None,
    problem: ProblemResponse | None = None,
) -> str:
    """The page of an answer that was given before.

    Args:
        seen: the answer, and what is known of it.
        names: of diseases, by their codes.
        sent: what was sent and not taken, so that the form says it again.
        problem: why it was not taken.
    """
    labels = [(code, names.get(code, code), malignant) for code, malignant in seen.labels]
    return render(
        "diagnosis.html",
        here="diagnosis",
        seen=seen,
        called={code: name for code, name, _ in labels},
        decision=_DECISIONS[seen.decision],
        said=[(one, CONFIRMED[read_confirmed_by(one.confirmed_by)]) for one in reversed(seen.said)],
        form=form_of(seen.id, labels, sent, seen.current),
        trouble=problem,
    )


def looking_page(sent: str = "", problem: ProblemResponse | None = None) -> str:
    """The page on which an answer is looked for by its number.

    Args:
        sent: what was looked for and not found.
        problem: why not.
    """
    return render("looking.html", here="diagnosis", sent=sent, trouble=problem, action=ANSWERS)


def read_fields(body: bytes) -> dict[str, str]:
    """The fields of the form, as a browser sends them.

    Raises:
        InvalidParameter: they are no form, or hold something else.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except (UnicodeDecodeError, ValueError):
        raise InvalidParameter("the form cannot be read; load its page again") from None
    fields = dict(pairs)
    if len(fields) < len(pairs) or not fields.keys() <= _FIELDS:
        raise InvalidParameter("the form has fields that its page has not; load the page again")
    return fields


def read_outcome(id_: str, fields: Mapping[str, str]) -> Outcome:
    """The outcome that a form gives; its empty label takes back what was said.

    Raises:
        InvalidParameter: nothing was chosen.
        OutcomeRefused: it was confirmed in no way that counts, or on no day that can be.
    """
    if "label" not in fields:
        raise InvalidParameter("nothing was chosen; choose what the lesion was")
    if "confirmed_by" not in fields:
        raise InvalidParameter("press the button of how it is known")
    number = fields.get("instead_of", "")
    if number and not (number.isascii() and number.isdecimal() and len(number) <= _LONGEST_NUMBER):
        raise InvalidParameter("the form cannot be read; load its page again")
    return Outcome(
        id_,
        fields["label"] or None,
        read_confirmed_by(fields.get("confirmed_by", "")),
        read_date(fields.get("date", "")),
        corrects=bool(number),
        instead_of=int(number) if number else None,
    )


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
