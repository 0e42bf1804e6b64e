"""The pages on which the outcome of an answer is given: found again by its number, weeks later.

Two clicks give an outcome: the diagnosis, and a button for how it was established. Nothing is preselected:
diseases are listed in the version's own order, and the model's answer is folded away, since a user who sees
it first is biased towards it. The Enter key presses the first button, which is hidden and does not say how
the diagnosis was established: the page then asks for that.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

from registry.outcomes.intake import read_confirmed_by, read_date
from registry.outcomes.store import ConfirmedBy, Outcome, OutcomeRefused, SaidOutcome, SeenAnswer
from serving.protocol.problems import InvalidParameter, ProblemResponse
from serving.web.rendering import render

PATH: Final = "/diagnoses"
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
        "action": f"{PATH}/{id_}",
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
    return render("looking.html", here="diagnosis", sent=sent, trouble=problem, action=PATH)


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
