"""The manifest with the labels that outcomes give, and what changed and what did not.

An outcome is of a lesion: all its pictures get the label. No label is overwritten in silence:

- a picture without a label gets that of the strongest outcome of its lesion;
- a label that is the same is confirmed;
- one that is known by less (a dermatologist's where histopathology has spoken) is replaced;
- any other stays, and is told as a conflict: one of which nobody said how it is known, one of the same
  strength, one that somebody has changed by hand, and outcomes that contradict each other;
- where an outcome was corrected the label follows, and where it was taken back, what stood there before is
  put back.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from clients.data.labels.taxonomy import TAXONOMY
from clients.data.manifests.groups import number_lesions
from clients.data.manifests.manifest import Manifest, Row
from clients.data.outcomes.provenance import (
    ANSWER,
    COLUMNS,
    Known,
    before_outcomes,
    changed_by_hand,
    now,
    with_outcome,
    without_outcome,
)
from clients.data.outcomes.tables import STRENGTH, KnownOutcome
from clients.data.outcomes.verdict import Verdict, verdict

Change = Literal["labelled", "confirmed", "replaced", "corrected", "taken back", "unchanged"]

CHANGES: tuple[Change, ...] = ("labelled", "confirmed", "replaced", "corrected", "taken back")


@dataclass
class Told:
    """What became of the outcomes.

    Attributes:
        changes: pictures by what happened to them.
        sources: pictures that got a label, by how it is known.
        conflicts: a line for each picture whose label stays though an outcome says another.
        unknown_labels: codes that the manifest does not speak, with the number of their outcomes.
        unknown_pictures: pictures of the first table that the manifest does not have, or has twice.
        answered: pictures of which a diagnosis is known.
        without_outcome: those of them of whose lesion no outcome is.
        without_picture: outcomes of diagnoses that the first table does not name.
    """

    changes: Counter[Change] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    conflicts: list[str] = field(default_factory=list)
    unknown_labels: dict[str, int] = field(default_factory=dict)
    unknown_pictures: list[str] = field(default_factory=list)
    answered: int = 0
    without_outcome: int = 0
    without_picture: int = 0

    @property
    def all_taken(self) -> bool:
        """Whether nothing waits for somebody to look at it."""
        return not (self.conflicts or self.unknown_labels or self.unknown_pictures)


def label(
    manifest: Manifest,
    answers: Sequence[tuple[str, str]],
    outcomes: Mapping[str, KnownOutcome],
    codes: Mapping[str, str] | None = None,
    *,
    replace_unsaid: bool = False,
) -> tuple[Manifest, Told]:
    """The manifest with the labels of outcomes; the one that came stays as it is.

    Args:
        manifest: of the hospital.
        answers: pictures, each with the id of a diagnosis of it.
        outcomes: by id.
        codes: what codes of the model are in this manifest; others are as they are.
        replace_unsaid: whether histopathology also replaces labels of which nobody said how they are known.
    """
    told = Told(without_picture=len(outcomes.keys() - {answer for _, answer in answers}))
    ids = _ids_by_row(manifest.rows, answers, told)
    translated = _translated(manifest, outcomes, codes or {}, {one for those in ids for one in those}, told)
    lesions = number_lesions(manifest.rows).tolist()
    of_lesion: dict[int, list[str]] = {}
    for lesion, those in zip(lesions, ids, strict=True):
        of_lesion.setdefault(lesion, []).extend(those)
    found = {
        lesion: [translated[one] for one in dict.fromkeys(those) if one in translated]
        for lesion, those in of_lesion.items()
    }
    told.answered = sum(map(bool, ids))
    told.without_outcome = sum(
        bool(those) and not any(one.label for one in found[lesion])
        for lesion, those in zip(lesions, ids, strict=True)
    )
    verdicts = {lesion: verdict(those) for lesion, those in found.items()}
    rows = [
        _labelled(row, found[lesion], verdicts[lesion], told, replace_unsaid=replace_unsaid)
        for row, lesion in zip(manifest.rows, lesions, strict=True)
    ]
    columns = dict.fromkeys((*manifest.extra_columns, *COLUMNS)) if any(found.values()) else {}
    extra = tuple(columns) or manifest.extra_columns
    return Manifest(tuple(rows), manifest.folder, extra, manifest.notes), told


def _labelled(
    row: Row, outcomes: Sequence[KnownOutcome], found: Verdict, told: Told, *, replace_unsaid: bool
) -> Row:
    """The row as outcomes of its lesion leave it."""
    if not outcomes:
        return row
    mine = row.value(ANSWER) in {one.answer for one in outcomes}
    base = before_outcomes(row) if mine else now(row)
    says = found.outcome
    if says is None:
        if found.contradicts:
            told.conflicts.append(f"{row.image}: its outcomes say {' and '.join(found.contradicts)}")
        return _counted(row, without_outcome(row, base) if mine else row, told)
    weaker = 0 < base.strength < STRENGTH[says.source]
    unsaid = replace_unsaid and base.strength == 0 and STRENGTH[says.source] == max(STRENGTH.values())
    yields = not base.label or base.label == says.label or weaker or unsaid
    if yields and not (changed_by_hand(row) and base.label != says.label):
        return _counted(row, with_outcome(row, says, base), told)
    told.conflicts.append(
        f"{row.image}: its label {_shown(base, row)} stays, and {says.source} says {says.label}"
    )
    return _counted(row, without_outcome(row, base) if mine and not changed_by_hand(row) else row, told)


def _shown(known: Known, row: Row) -> str:
    how = "changed by hand" if changed_by_hand(row) else known.source or "nobody said how it is known"
    return f"{known.label or '(none)'} ({how})"


def _counted(old: Row, new: Row, told: Told) -> Row:
    change = _change(old, new)
    told.changes[change] += 1
    if change in ("labelled", "confirmed", "replaced", "corrected"):
        told.sources[new.value("label_source")] += 1
    return new


def _change(old: Row, new: Row) -> Change:
    if all(old.value(name) == new.value(name) for name in ("label", *COLUMNS)):
        return "unchanged"
    if not new.value(ANSWER):
        return "taken back"
    if old.value(ANSWER):
        return "corrected"
    if not old.label:
        return "labelled"
    return "confirmed" if old.label == new.label else "replaced"


def _ids_by_row(rows: Sequence[Row], answers: Sequence[tuple[str, str]], told: Told) -> list[list[str]]:
    """The ids of the diagnoses of each picture, which is named as in the manifest or by its file alone."""
    places: dict[str, set[int]] = {}
    for place, row in enumerate(rows):
        for name in {row.image, _file(row.image)}:
            places.setdefault(name, set()).add(place)
    exact = {row.image: place for place, row in enumerate(rows)}
    found: list[list[str]] = [[] for _ in rows]
    for picture, answer in answers:
        name = picture.replace("\\", "/").removeprefix("./")
        meant = {exact[name]} if name in exact else places.get(name, places.get(_file(name), set()))
        if len(meant) == 1:
            found[next(iter(meant))].append(answer)
        else:
            lines = f"{len(meant)} lines" if meant else "no line"
            told.unknown_pictures.append(f"{picture}: {lines} of the manifest could be meant")
    return found


def _file(image: str) -> str:
    return PurePosixPath(image).name


def _translated(
    manifest: Manifest,
    outcomes: Mapping[str, KnownOutcome],
    codes: Mapping[str, str],
    asked: set[str],
    told: Told,
) -> dict[str, KnownOutcome]:
    """The outcomes of answers of these pictures, in the manifest's codes; those in none are told."""
    speaks = _vocabulary(manifest, codes)
    found: dict[str, KnownOutcome] = {}
    unknown: Counter[str] = Counter()
    for answer in asked & outcomes.keys():
        one = outcomes[answer]
        code = codes.get(one.label, one.label)
        usable = not one.label or (bool(code) and speaks(code))
        unknown[one.label] += bool(code) and not usable
        found[answer] = replace(one, label=code or one.label, usable=usable)
    told.unknown_labels = {code: count for code, count in unknown.most_common() if count}
    return found


def _vocabulary(manifest: Manifest, codes: Mapping[str, str]) -> Callable[[str], bool]:
    """Whether a code is one of the manifest's.

    It is if a picture has it that had a label before any outcome, or if it was named. A manifest that has
    codes of the taxonomy alone speaks all of them, and one without any such label takes what comes.
    """
    present = {before.label for before in map(before_outcomes, manifest.rows) if before.label}
    if not present:
        return lambda code: True
    known = present | set(codes.values()) | (set(TAXONOMY) if present <= set(TAXONOMY) else set())
    return lambda code: code in known
