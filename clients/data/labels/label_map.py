"""Mapping the label codes of a manifest to the classes of a model."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clients.data.errors import LabelError
from clients.data.labels.taxonomy import BENIGN, MALIGNANT, TAXONOMY, describe
from clients.data.wording import listing
from registry.bundle.labels import Label, Malignancy
from training.data.settings import LabelMap

UNLABELLED = -1
DROPPED = -2

Kinds = Mapping[str, frozenset[Malignancy]]


@dataclass(frozen=True)
class Labelling:
    """The classes, and which class each row belongs to.

    Attributes:
        labels: the classes, by code.
        classes: one index into `labels` per row; `UNLABELLED` for an empty label, `DROPPED` for a row that
            the label map leaves out.
    """

    labels: tuple[Label, ...]
    classes: tuple[int, ...]


def of_kinds(
    labels: Sequence[Label], kinds: Mapping[str, str], groups: Mapping[str, str], *, whole: bool
) -> tuple[Label, ...]:
    """The classes, with kinds of malignancy and groups of diagnoses by their codes.

    Args:
        labels: the classes.
        kinds: as `data.kinds` has them.
        groups: as `data.groups` has them.
        whole: whether these are all classes of the job, and not one hospital's own.

    Raises:
        LabelError: a kind is of a class that is not malignant, or a code of no class of the whole job.
    """
    codes = {label.code for label in labels}
    malignant = {label.code for label in labels if label.malignancy == "malignant"}
    for name, given, allowed in (("kinds", kinds, malignant), ("groups", groups, codes)):
        known = given.keys() if whole else given.keys() & codes
        if wrong := sorted(known - allowed):
            raise LabelError(
                f"data.{name} names {', '.join(wrong)}; the {'malignant ' * (name == 'kinds')}classes of "
                f"this job are {', '.join(sorted(allowed)) or 'none'}"
            )
    return tuple(
        label.model_copy(
            update={
                "kind": kinds.get(label.code, label.kind),
                "group": groups.get(label.code, label.group),
            }
        )
        for label in labels
    )


def assign_classes(codes: Sequence[str], label_map: LabelMap, kinds: Kinds | None = None) -> Labelling:
    """The class of every row, from its code.

    `malignancy`: benign and malignant, premalignant counting as malignant. A mapping: the classes it names,
    sorted, whether or not a row has them; a code that maps to None leaves its rows out. None: every code
    that occurs is a class, sorted.

    Args:
        codes: the code of each row, empty where it is unlabelled.
        label_map: what each code becomes.
        kinds: how malignant a code of somebody's own is, by all that it gathers; others are as the taxonomy
            says.

    Raises:
        LabelError: a code that the map does not know (all are listed with their counts), or no class at all.
    """
    present = Counter(code for code in codes if code)
    targets = _targets(sorted(present), label_map)
    unknown = [f"{code!r}: {count} pictures" for code, count in present.most_common() if code not in targets]
    if unknown:
        known = "in the taxonomy" if label_map == "malignancy" else "in the label map"
        raise LabelError(
            f"labels that are not {known}:\n{listing(unknown)}\n"
            f"known: {', '.join(sorted(targets))}; give each a class in `label_map`, or null to leave it out"
        )
    classes = sorted({target for target in targets.values() if target is not None})
    if not classes:
        raise LabelError("no row has a label, so there are no classes; name them in `label_map`")
    index = {target: number for number, target in enumerate(classes)}

    def class_of(code: str) -> int:
        target = targets.get(code)
        if target is not None:
            return index[target]
        return DROPPED if code else UNLABELLED

    return Labelling(
        tuple(_label(name, targets, kinds or {}) for name in classes), tuple(map(class_of, codes))
    )


def kinds_of(code: str, kinds: Kinds) -> frozenset[Malignancy]:
    """The malignancies of all the codes that `code` gathers."""
    return kinds.get(code) or frozenset({describe(code).malignancy})


def _targets(present: Sequence[str], label_map: LabelMap) -> dict[str, str | None]:
    """The class of each code that the map knows."""
    if label_map is None:
        return {code: code for code in present}
    if not isinstance(label_map, str):
        return dict(label_map)
    folded: dict[str, str | None] = {BENIGN.code: BENIGN.code, MALIGNANT.code: MALIGNANT.code}
    for code, label in TAXONOMY.items():
        folded[code] = BENIGN.code if label.malignancy == "benign" else MALIGNANT.code
    return folded


def _label(name: str, targets: Mapping[str, str | None], kinds: Kinds) -> Label:
    """The class `name`; one of somebody's own is as malignant as all the codes it gathers, if they agree."""
    label = describe(name)
    gathered = {kind for code, target in targets.items() if target == name for kind in kinds_of(code, kinds)}
    if label.malignancy == "unknown" and len(gathered) == 1:
        return label.model_copy(update={"malignancy": gathered.pop()})
    return label
