"""The whole way from two tables and a manifest to a manifest with labels, and what is told of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.data.manifests.csv_file import read_manifest
from clients.data.manifests.manifest import LABEL_FROM, OUTCOME, Manifest
from clients.data.outcomes.labelling import CHANGES, Told, label
from clients.data.outcomes.pinning import drawn_splits, pin
from clients.data.outcomes.tables import read_answers, read_outcomes
from clients.data.pictures.cache import cache_folder
from clients.data.wording import listing
from training.data.dataset import SPLITS

JUDGING = SPLITS[1:]

CAUTION = (
    "Labels come for those who were followed up, mostly since the answer was suspicious. To learn from them "
    "is one thing; calibrated or tested by them a model would seem to be what it is not for everybody. Those "
    "whose patients have no other label are in the split train; a job leaves the others out of its figures "
    f"with data.train_only: {{{LABEL_FROM}: {OUTCOME}}}"
)


@dataclass(frozen=True)
class Relabelled:
    """A manifest with the labels of outcomes.

    Attributes:
        manifest: as it was, and
        labelled: as outcomes leave it.
        told: what became of the outcomes.
    """

    manifest: Manifest
    labelled: Manifest
    told: Told

    @property
    def judging(self) -> int:
        """Pictures with a label for an outcome alone whose patients are in a split that judges models."""
        return sum(row.value(LABEL_FROM) == OUTCOME and row.split in JUDGING for row in self.labelled.rows)

    @property
    def pinned(self) -> int:
        """Pictures whose split was written down."""
        both = zip(self.manifest.rows, self.labelled.rows, strict=True)
        return sum(old.split != new.split for old, new in both)

    def data(self) -> dict[str, Any]:
        """What became of the outcomes, for programs."""
        told = self.told
        return {
            "pictures": len(self.labelled.rows),
            "changes": {name: told.changes[name] for name in CHANGES},
            "sources": dict(told.sources),
            "pinned": self.pinned,
            "judging": self.judging,
            "conflicts": told.conflicts,
            "unknown_labels": told.unknown_labels,
            "unknown_pictures": told.unknown_pictures,
            "answered": told.answered,
            "without_outcome": told.without_outcome,
            "without_picture": told.without_picture,
        }

    def lines(self) -> Iterator[str]:
        """The same for people."""
        told = self.told
        yield ", ".join(f"{told.changes[name]} {name}" for name in CHANGES)
        if told.sources:
            yield "known by " + ", ".join(f"{name} ({count})" for name, count in told.sources.most_common())
        yield (
            f"{told.answered} pictures were answered, of {told.without_outcome} nothing is known; "
            f"{told.without_picture} outcomes are of diagnoses that the table of answers does not name"
        )
        if self.pinned:
            yield f"{self.pinned} pictures get a split, so that it stays"
        if told.conflicts:
            yield f"{len(told.conflicts)} labels stay, and outcomes say another:\n{listing(told.conflicts)}"
        if told.unknown_labels:
            unknown = [f"{code}: {count} outcomes" for code, count in told.unknown_labels.items()]
            yield (
                f"labels that this manifest does not have:\n{listing(unknown)}\n"
                "say what each is here with --label CODE=YOURS, or leave it out with --label CODE="
            )
        if told.unknown_pictures:
            yield f"{len(told.unknown_pictures)} pictures were not found:\n{listing(told.unknown_pictures)}"
        if told.changes["labelled"]:
            yield CAUTION
        if self.judging:
            yield f"{self.judging} such pictures are of patients in {', '.join(JUDGING)}"


def relabel(
    manifest: Path,
    answers: Path,
    outcomes: Path,
    codes: Mapping[str, str],
    *,
    splits: Path | None = None,
    client: str | None = None,
    replace_unsaid: bool = False,
    writing: bool = True,
) -> Relabelled:
    """Give the pictures of a manifest the labels of outcomes.

    Args:
        manifest: of the hospital.
        answers: which diagnosis was of which picture.
        outcomes: as `dermfed-outcomes export` writes them.
        codes: what codes of the model are in this manifest.
        splits: a job whose splits are to stay.
        client: the hospital's name in it, where the job has several sources.
        replace_unsaid: whether histopathology replaces labels of which nobody said how they are known.
        writing: whether the manifest is to be written, for which its splits have to be known.

    Raises:
        ClientDataError: a table cannot be read, or splits would change.
        JobError: the job cannot be read.
    """
    read = read_manifest(manifest)
    labelled, told = label(
        read, read_answers(answers), read_outcomes(outcomes), codes, replace_unsaid=replace_unsaid
    )
    drawn = None
    if splits is not None:
        from training.jobs.job import read_job  # takes seconds

        job = read_job(splits)
        drawn = drawn_splits(job.data, job.seed, manifest, cache_folder(), job.picture, client)
    if writing or drawn is not None:
        labelled = pin(read, labelled, drawn)
    return Relabelled(read, labelled, told)
