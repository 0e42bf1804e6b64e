"""The pages on which the outcome of an answer is given: found again by its number, weeks later.

Two clicks give an outcome: the diagnosis, and a button for how it was established. Nothing is preselected:
diseases are listed in the version's own order, and the model's answer is folded away, since a user who sees
it first is biased towards it. The Enter key presses the first button, which is hidden and does not say how
the diagnosis was established: the page then asks for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import parse_qsl

from registry.bundle.labels import Label
from registry.outcomes.intake import read_confirmed_by, read_date
from registry.outcomes.store import ConfirmedBy, Outcome, OutcomeRefused, SeenAnswer
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


@dataclass(frozen=True)
class Disease:
    """A label that can be chosen.

    Attributes:
        code: of the version that answered.
        name: what it is called; the code where that is not known any more.
        malignant: whether it is.
        chosen: whether it was sent before, and refused for something else.
    """

    code: str
    name: str
    malignant: bool
    chosen: bool = False


@dataclass(frozen=True)
class OutcomeForm:
    """The form in which an outcome is given.

    Attributes:
        id: of the diagnosis.
        action: where it is sent.
        diseases: in the version's own order.
        day: what stands in the field of the date; today, in UTC.
        last: the last day that is taken.
        instead_of: the number of the outcome that would be corrected; empty where there is none.
        takes_back: how the outcome that stands was confirmed, where it can be taken back; else empty.
    """

    id: str
    action: str
    diseases: Sequence[Disease]
    day: str
    last: str
    instead_of: str = ""
    takes_back: str = ""
    confirmed: Sequence[tuple[str, str]] = tuple(CONFIRMED.items())


def form_of(id_: str, labels: Sequence[Label], today: date | None = None) -> OutcomeForm:
    """The form that stands with an answer that has just been given."""
    diseases = [Disease(one.code, one.name, one.malignancy == "malignant") for one in labels]
    return _form(id_, diseases, {}, today)


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
    diseases = [
        Disease(code, names.get(code, code), malignant, code == (sent or {}).get("label"))
        for code, malignant in seen.labels
    ]
    called = {one.code: one for one in diseases}
    return render(
        "diagnosis.html",
        here="diagnosis",
        seen=seen,
        called=called,
        decision=_DECISIONS[seen.decision],
        said=[(one, CONFIRMED[read_confirmed_by(one.confirmed_by)]) for one in reversed(seen.said)],
        form=_form(seen.id, diseases, sent or {}, seen=seen),
        trouble=problem,
    )


def looking_page(sent: str = "", problem: ProblemResponse | None = None) -> str:
    """The page on which an answer is looked for by its number.

    Args:
        sent: what was looked for and not found.
        problem: why not.
    """
    return render(
        "looking.html",
        here="diagnosis",
        sent=sent,
        trouble=problem,
        action=PATH,
    )


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


def _form(
    id_: str,
    diseases: Sequence[Disease],
    sent: Mapping[str, str],
    today: date | None = None,
    seen: SeenAnswer | None = None,
) -> OutcomeForm:
    day = today or datetime.now(UTC).date()
    current = seen.current if seen else None
    return OutcomeForm(
        id_,
        f"{PATH}/{id_}",
        diseases,
        _day(sent.get("date", "")) or day.isoformat(),
        (day + timedelta(days=1)).isoformat(),
        "" if current is None else str(current.number),
        "" if current is None or current.label is None else current.confirmed_by,
    )


def _day(sent: str) -> str:
    """What was sent as a date, where it is one."""
    try:
        return read_date(sent).isoformat()
    except OutcomeRefused:
        return ""
