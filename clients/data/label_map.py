"""Mapping the label codes of a manifest to the classes of a model.

Mapping the label codes of several sources to the classes of one job.

A source's own label map turns its codes into codes that all sources share, and the job's label map turns
those into classes. An unseen source may know other classes than the job: its codes are no classes, and are
folded into benign and malignant (Bdair et al. 2022, section 3.8: eight classes against the two of ISIC 2020).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clients.data.errors import LabelError
from clients.data.output import listing
from clients.data.sources import Picture, Source
from clients.data.taxonomy import BENIGN, MALIGNANT, TAXONOMY, describe
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
        kinds: how malignant a user-defined code is, by all that it gathers; others are as the taxonomy
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
    """The class `name`; a user-defined one is as malignant as all the codes it gathers, if they agree."""
    label = describe(name)
    gathered = {kind for code, target in targets.items() if target == name for kind in kinds_of(code, kinds)}
    if label.malignancy == "unknown" and len(gathered) == 1:
        return label.model_copy(update={"malignancy": gathered.pop()})
    return label


def label_pictures(pictures: Sequence[Picture], sources: Sequence[Source], label_map: LabelMap) -> Labelling:
    """The classes of the job, and the class of each picture; those of unseen sources are `FOLDED_CLASSES`.

    Args:
        pictures: the pictures.
        sources: where they are from.
        label_map: the job's own.

    Raises:
        LabelError: a code that a source's map, the job's or the taxonomy does not know; no class at all; an
            unseen source without a labelled picture, or together with classes of unknown kind.
    """
    classes = [DROPPED] * len(pictures)
    trained: list[int] = []
    codes: list[str] = []
    kinds: dict[str, frozenset[Malignancy]] = {}
    for source in sources:
        mine = [number for number, picture in enumerate(pictures) if picture.source == source.name]
        common, gathered = _common(source, [pictures[number].row.label for number in mine])
        kept = [(number, code) for number, code in zip(mine, common, strict=True) if code is not None]
        if source.unseen:
            folded = _fold(source, [code for _, code in kept])
            for (number, _), kind in zip(kept, folded, strict=True):
                classes[number] = kind
            continue
        trained += [number for number, _ in kept]
        codes += [code for _, code in kept]
        for code, found in gathered.items():
            kinds[code] = kinds.get(code, frozenset()) | found
    labelling = assign_classes(codes, label_map, kinds)
    if any(source.unseen for source in sources):
        _refuse_unknown_kinds(labelling)
    for number, assigned in zip(trained, labelling.classes, strict=True):
        classes[number] = assigned
    return Labelling(labelling.labels, tuple(classes))


def _common(source: Source, codes: Sequence[str]) -> tuple[list[str | None], Kinds]:
    """The common code of each row, empty where it has none and None where it is dropped, and their kinds."""
    if source.label_map is None:
        return list(codes), {code: kinds_of(code, {}) for code in codes if code}
    try:
        labelling = assign_classes(codes, source.label_map)
    except LabelError as error:
        raise LabelError(f"source {source.name}: {error}") from error
    places = {UNLABELLED: "", DROPPED: None, **{n: label.code for n, label in enumerate(labelling.labels)}}
    kinds = {label.code: frozenset({label.malignancy}) for label in labelling.labels}
    return [places[number] for number in labelling.classes], kinds


def _fold(source: Source, codes: Sequence[str]) -> tuple[int, ...]:
    """The index of each code in `FOLDED_CLASSES` (benign, malignant)."""
    if not any(codes):
        raise LabelError(
            f"no picture of the unseen source {source.name} has a label, so that it cannot be asked; leave "
            f"it out, or check its `where` and `label_map`"
        )
    try:
        return assign_classes(codes, "malignancy").classes
    except LabelError as error:
        raise LabelError(
            f"source {source.name} is unseen, so its labels are folded into benign and malignant: {error}"
        ) from error


def _refuse_unknown_kinds(labelling: Labelling) -> None:
    """Refuse to ask unseen clients about benign and malignant where a class may be either.

    Raises:
        LabelError: names the classes.
    """
    unknown = [label.code for label in labelling.labels if label.malignancy == "unknown"]
    if unknown:
        raise LabelError(
            f"unseen sources are judged by benign and malignant, and of {', '.join(unknown)} it is not known "
            "which they are; map them to codes of the taxonomy in `label_map`, or leave out the unseen source"
        )
