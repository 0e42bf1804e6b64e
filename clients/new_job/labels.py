"""What is asked of the model: a label map proposed from the labels that occur.

A label is known if it is a code of the taxonomy, or a name under which published data sets give a diagnosis
that has one. What is not known is never guessed at, and is left out only where a person says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from clients.data.adapters.known_names import known_code
from clients.data.errors import LabelError
from clients.data.output import listing
from clients.data.taxonomy import BENIGN, MALIGNANT, TAXONOMY, describe

Asked = Literal["malignancy", "diagnoses"]
LEFT_OUT = ("null", "", "none")  # how a person says that a label's pictures are left out

_FOLDED = {label.code for label in (BENIGN, MALIGNANT)}


@dataclass(frozen=True)
class Labels:
    """The labels that occur, and what a job makes of them.

    Attributes:
        asked: whether the classes are benign and malignant, or the diagnoses.
        counts: pictures by label, the most frequent first.
        given: what a person said of a label: a class, or None to leave its pictures out.
    """

    asked: Asked
    counts: Mapping[str, int]
    given: Mapping[str, str | None]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The labels that are neither known nor given a class."""
        return tuple(label for label in self.counts if label not in self.given and known_code(label) is None)

    @property
    def classes(self) -> dict[str, str | None]:
        """The class of each label; None where its pictures are left out. Unknown ones are their own class."""
        return {label: self._class_of(label) for label in self.counts}

    def _class_of(self, label: str) -> str | None:
        given = self.given.get(label, label)
        if label in self.given and (given is None or given in _FOLDED or self.asked == "diagnoses"):
            return given
        code = known_code(given or label) or label
        if self.asked == "diagnoses" or code in _FOLDED or code not in TAXONOMY:
            return code
        return BENIGN.code if TAXONOMY[code].malignancy == "benign" else MALIGNANT.code

    @property
    def label_map(self) -> Literal["malignancy"] | dict[str, str | None] | None:
        """What the job says: nothing where every label is a class as it is spelt."""
        classes = self.classes
        if self.asked == "malignancy" and not self.given and set(classes) <= {*TAXONOMY, *_FOLDED}:
            return "malignancy"
        if all(label == of for label, of in classes.items()):
            return None
        return classes

    @property
    def both_kinds(self) -> bool:
        """Whether some classes are malignant and others are not."""
        kinds = {describe(of).malignancy == "malignant" for of in self.classes.values() if of is not None}
        return kinds == {True, False}

    def check(self) -> None:
        """Refuse labels of which a job could make nothing.

        Raises:
            LabelError: labels of which malignancy is not known, one class alone, or a `given` label that no
                picture has.
        """
        absent = [label for label in self.given if label not in self.counts]
        if absent:
            raise LabelError(
                f"no picture has the label {', '.join(map(repr, absent))}; there are {', '.join(self.counts)}"
            )
        unknown = [f"{label!r}: {self.counts[label]} pictures" for label in self.unknown]
        if self.asked == "malignancy" and unknown:
            raise LabelError(
                f"of these labels it is not known whether they are malignant:\n{listing(unknown)}\n"
                f"say it of each with --map LABEL=benign or --map LABEL=malignant, leave their pictures out "
                "with --map LABEL=null, or ask for the diagnoses with --asks diagnoses"
            )
        odd = sorted({of for of in self.classes.values() if of} - _FOLDED)
        if self.asked == "malignancy" and odd:
            raise LabelError(
                f"a map to {', '.join(odd)} says nothing of malignancy; map to benign, malignant or null"
            )
        classes = sorted({of for of in self.classes.values() if of is not None})
        if len(classes) < 2:
            raise LabelError(
                f"all pictures are of one class, {', '.join(classes) or 'none'}; a model needs two or more"
            )


def proposed(counts: Mapping[str, int], given: Mapping[str, str | None]) -> Asked:
    """Malignancy where it is known of every label and both kinds occur; else the diagnoses."""
    labels = Labels("malignancy", counts, given)
    return "malignancy" if not labels.unknown and labels.both_kinds else "diagnoses"


def read_given(pairs: list[str]) -> dict[str, str | None]:
    """What `LABEL=CLASS` pairs say; `null` for a class leaves the label's pictures out.

    Raises:
        LabelError: a pair without `=`.
    """
    given: dict[str, str | None] = {}
    for pair in pairs:
        label, equals, name = pair.rpartition("=")
        if not equals:
            raise LabelError(f"--map {pair!r} has no class; write it as LABEL=CLASS, or LABEL=null")
        given[label] = None if name.strip().lower() in LEFT_OUT else name.strip()
    return given
