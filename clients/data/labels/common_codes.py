"""Mapping the label codes of several sources to the classes of one job.

A source's own label map turns its codes into codes that all sources share, and the job's label map turns
those into classes. An unseen source may know other classes than the job: its codes are no classes, and are
folded into benign and malignant (Bdair et al. 2022, section 3.8: eight classes against the two of ISIC 2020).
"""

from collections.abc import Sequence

from clients.data.errors import LabelError
from clients.data.filtering import Picture
from clients.data.labels.label_map import DROPPED, UNLABELLED, Kinds, Labelling, assign_classes, kinds_of
from clients.data.sources import Source
from registry.bundle.labels import Malignancy
from training.data.settings import LabelMap


def label_pictures(pictures: Sequence[Picture], sources: Sequence[Source], label_map: LabelMap) -> Labelling:
    """The classes of the job, and the class of each picture; those of unseen sources are `FOLDED_CLASSES`.

    Args:
        pictures: the pictures.
        sources: where they are from.
        label_map: the job's own.

    Raises:
        LabelError: a code that a source's map, the job's or the taxonomy does not know; no class at all; an
            unseen source without a labelled picture, or beside classes of unknown kind.
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
