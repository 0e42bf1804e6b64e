"""Whether anything is wrong with what a card is of: one sentence, what each matter is, and what to do."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from registry.card.answering import answering, named
from registry.card.figures import FEW, count_of
from registry.card.use import NEVER_REPORTS

Level = Literal["wrong", "look", "fine"]


@dataclass(frozen=True)
class Matter:
    """Something that somebody has to know.

    Attributes:
        text: what it is, a sentence.
        todo: what to do about it, a sentence.
        wrong: whether it is wrong, and not just to be known.
    """

    text: str
    todo: str
    wrong: bool = False


@dataclass(frozen=True)
class Standing:
    """Whether anything is wrong.

    Attributes:
        matters: what there is, the worst first.
    """

    matters: tuple[Matter, ...]

    @property
    def level(self) -> Level:
        """How bad it is."""
        if any(one.wrong for one in self.matters):
            return "wrong"
        return "look" if self.matters else "fine"

    @property
    def sentence(self) -> str:
        """The same for people."""
        wrong = sum(one.wrong for one in self.matters)
        if wrong:
            return f"Something is wrong: {_things(wrong)} to act on."
        if self.matters:
            said = _things(len(self.matters))
            return f"Nothing is broken. {said[0].upper()}{said[1:]} to know before relying on it."
        return "Nothing is known to be wrong."


def standing(card: Mapping[str, Any]) -> Standing:
    """The standing of what `release_card` gives."""
    return Standing(tuple(sorted(_matters(card), key=lambda one: not one.wrong)))


_READ: Final = "Read what is unknown of it, below, before relying on its answers for them."


def _matters(card: Mapping[str, Any]) -> Iterator[Matter]:
    versions = card["versions"]
    if gone := _named(one for one in versions if one.get("withdrawn")):
        yield Matter(f"Withdrawn: {gone}.", "Promote another; nobody may be answered by it.", wrong=True)
    for alarm in (alarm for one in versions for alarm in one.get("alarms", ())):
        yield Matter(
            f"{alarm[0].upper()}{alarm[1:]}.",
            "Go back to the release before, or close the alarm with a reason: `dermfed-registry field`.",
            wrong=True,
        )
    if unknown := _named(one for one in versions if not one["metrics"] and not one["by_subgroup"]):
        yield Matter(
            f"Without test figures: {unknown}. How well it answers is unknown.",
            "Test it before anybody is answered by it.",
        )
    if silent := _named(one for one in versions if one["how_to_use"]["report"] == NEVER_REPORTS):
        yield Matter(
            f"Refers every picture and never reports: {silent}.",
            "Calibrate it on more pictures, or expect to see every lesion yourself.",
        )
    if unsure := _named(one for one in versions if one["calibration"]["conformal"]["guarantee"] == "none"):
        yield Matter(f"Prediction sets that promise nothing: {unsure}.", "Calibrate it on more lesions.")
    if untested := sorted({name for one in versions for name in one["data"]["absent"]}):
        yield Matter(f"Never tested on {', '.join(untested)}.", _READ)
    counted = [(name, count_of(row.get("n"))) for name, _, row in answering(versions)]
    if few := [f"{name} ({n})" for name, n in counted if n is not None and n < FEW]:
        yield Matter(f"Fewer than {FEW} test pictures of {', '.join(few)}: figures can be far off.", _READ)


def _named(versions: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(map(named, versions))


def _things(number: int) -> str:
    return "one thing" if number == 1 else f"{number} things"
