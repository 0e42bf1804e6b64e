"""An outcome as a hospital gives it, and what can be wrong with it."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, get_args

from registry.bundle.nearest import nearest
from registry.bundle.plain_text import shown_name
from registry.errors import RegistryError

ConfirmedBy = Literal["histopathology", "dermatologist", "follow-up"]

CONFIRMED_BY: Final[tuple[ConfirmedBy, ...]] = get_args(ConfirmedBy)

EARLIEST: Final = date(1990, 1, 1)
"""No outcome is older: an earlier day is a mistyped one."""


class OutcomeRefused(RegistryError):  # noqa: N818 - reads as what it says where it is caught
    """An outcome that cannot be taken; the text says why, and what is allowed.

    Attributes:
        unquoted: the same without what was written in a wrong place, which may be the name of a patient: for
            a log, or a terminal whose words go into one.
    """

    exit_code = 1

    def __init__(self, why: str, wrote: str | None = None) -> None:
        """Takes the text, in which `{wrote}` stands for what was written."""
        super().__init__(why if wrote is None else why.replace("{wrote}", f"'{shown_name(wrote)}'"))
        self.unquoted = why.replace("{wrote}", "something else")


class UnknownAnswer(OutcomeRefused):
    """No answer of this id is kept, or it is somebody else's."""


class OutcomeGiven(OutcomeRefused):
    """Another outcome of this answer is known, and this one does not say that it corrects it.

    Or it says that it corrects one in whose place another has come meanwhile.
    """


@dataclass(frozen=True)
class Outcome:
    """What became of a patient.

    Attributes:
        answer: the id of the diagnosis.
        label: the code of what it was; None withdraws what was said.
        confirmed_by: how that is known.
        confirmed_on: when it was.
        corrects: whether it may take the place of another outcome.
        instead_of: the number of the outcome whose place it may take, as a page showed it; None for any.
        of_file: whether it is a line of a file, which may be begun again from its first line.
    """

    answer: str
    label: str | None
    confirmed_by: ConfirmedBy
    confirmed_on: date
    corrects: bool = False
    instead_of: int | None = None
    of_file: bool = False


def read_confirmed_by(text: str) -> ConfirmedBy:
    """How an outcome is known, as it was written.

    Raises:
        OutcomeRefused: in no way that counts.
    """
    for known in CONFIRMED_BY:
        if text == known:
            return known
    raise OutcomeRefused(f"confirmed_by is {{wrote}}; {nearest(text[:100], CONFIRMED_BY)}", text)


def read_date(text: str, today: date | None = None) -> date:
    """The day of an outcome, as it was written.

    Raises:
        OutcomeRefused: it is none, or cannot be.
    """
    try:
        day = datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise OutcomeRefused(
            "the date is {wrote}; write a day as YEAR-MONTH-DAY, such as 2026-03-31", text
        ) from None
    now = today or datetime.now(UTC).date()
    if day > now + timedelta(days=1):  # somewhere it is tomorrow
        raise OutcomeRefused(f"the date {day} is in the future; an outcome is given once it is known")
    if day < EARLIEST:
        raise OutcomeRefused(f"the date {day} is before {EARLIEST}; check the year")
    return day


def place_of(label: str, labels: list[str]) -> int:
    """The place of a code among a version's labels.

    Raises:
        OutcomeRefused: the version does not know it.
    """
    if label not in labels:
        raise OutcomeRefused(
            f"the label {{wrote}} is none of the version that answered; {nearest(label[:100], labels)}", label
        )
    return labels.index(label)
