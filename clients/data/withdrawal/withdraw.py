"""Takes patients out of a manifest and writes down the splits that a job drew, so that nothing else moves.

Splits are dealt along a line, and one patient fewer shifts all that come after: what a model has learned
could be what it is judged by next. So the splits of before are pinned, and what the job makes of the manifest
that is left is held against what it made of the one before, picture by picture.

Beside those who withdraw further patients may be left out, drawn at random from the same splits and
subgroups: numbers that are told of what is left then differ from those of before by as many, and by nobody
alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import Any

from clients.data.errors import LabelError, ManifestError, PartitionError, SplitError
from clients.data.manifests.csv_file import read_manifest, write_manifest
from clients.data.manifests.manifest import Manifest
from clients.data.pictures.cache import cache_folder
from clients.data.withdrawal.drawn import DrawnPicture, drawn_pictures
from clients.data.withdrawal.linked import groups_of, rows_of
from clients.data.wording import listing

Drawn = Mapping[str, DrawnPicture]
Cell = tuple[str, str]  # a split and a subgroup


@dataclass(frozen=True)
class Withdrawn:
    """A manifest without the patients who withdrew.

    Attributes:
        manifest: as it was, and
        left: as it is written.
        gone: how many rows are of those who withdrew.
        used: how many of these the job uses.
        beside: the patients that were left out beside them.
        pinned: how many rows got a split.
    """

    manifest: Manifest
    left: Manifest
    gone: int
    used: int
    beside: int
    pinned: int

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "pictures": len(self.left.rows),
            "withdrawn": self.gone,
            "withdrawn_used": self.used,
            "left_out_beside": self.beside,
            "pinned": self.pinned,
        }

    def lines(self) -> Iterator[str]:
        """The same for people."""
        yield f"{self.gone} pictures are taken out, {self.used} of which the job uses"
        if self.beside:
            yield f"{self.beside} further patients are left out beside, drawn at random"
        if self.pinned:
            yield f"{self.pinned} pictures get a split, so that it stays"
        yield "no other picture of the job has moved"


def withdraw(
    manifest: Path,
    patients: Sequence[str],
    job_file: Path,
    out: Path,
    *,
    client: str | None = None,
    beside: int = 0,
) -> Withdrawn:
    """Write the manifest that is left when patients withdraw.

    Args:
        manifest: of the hospital, as the job's run has it.
        patients: who withdraw.
        job_file: the job whose splits are to stay.
        out: the manifest to write; there is none where anything is wrong.
        client: the hospital's name in the job, where the job has several sources.
        beside: how many patients more are left out of each split and subgroup that they were in.

    Raises:
        ClientDataError: the manifest cannot be read, or no such manifest can be made.
        JobError: the job cannot be read.
    """
    from training.jobs.job import read_job  # takes seconds

    job = read_job(job_file)
    if 0 < job.data.label_fraction < 1:
        raise PartitionError(
            f"the job has data.label_fraction: {job.data.label_fraction:g}. Which labels a client keeps is "
            "dealt along a line as splits are, and no column holds it: with one patient fewer, others lose "
            "or get labels. Leave the run (the coordinator goes on with --without), and begin a new one "
            "without the patient's pictures"
        )
    before = read_manifest(manifest)
    gone = rows_of(before, patients)
    name, cache = client or manifest.stem, cache_folder()

    def drawn(path: Path) -> Drawn:
        return drawn_pictures(job.data, job.seed, path, cache, job.picture, name)

    at_first = drawn(manifest)
    more = also_left_out(before, gone, at_first, beside)
    taken_out = gone | more
    kept = [row for place, row in enumerate(before.rows) if place not in taken_out]
    left = before.keep(
        [
            replace(row, split=row.split or (at_first[row.image].split if row.image in at_first else ""))
            for row in kept
        ]
    )
    if not left.rows:
        raise ManifestError("no picture would be left; stop the node instead (docs/hospital.md, Leaving)")
    checked = out.with_name(f".{out.stem}.unchecked.csv")
    try:
        write_manifest(left, checked)
        read_again = read_manifest(checked)
        now = drawn(checked)
        images = {row.image: old.image for row, old in zip(read_again.rows, left.rows, strict=True)}
        refuse_others_moved(at_first, {images[image]: picture for image, picture in now.items()}, left)
        refuse_same_files(before, gone, left, at_first)
        checked.replace(out)
    finally:
        checked.unlink(missing_ok=True)
    groups = groups_of(before)
    return Withdrawn(
        before,
        left,
        gone=len(gone),
        used=sum(before.rows[place].image in at_first for place in gone),
        beside=len({groups[place] for place in more}),
        pinned=sum(old.split != new.split for old, new in zip(kept, left.rows, strict=True)),
    )


def also_left_out(manifest: Manifest, gone: frozenset[int], drawn: Drawn, beside: int) -> frozenset[int]:
    """The rows of further patients, `beside` of each split and subgroup that those who go are in.

    Whoever is left out beside may have pictures in other subgroups, too: of these as many are left out then.
    Where no more than so many are left, all are: a cell that is empty tells nothing that it did not before.
    """
    if not beside:
        return frozenset()
    groups, random = groups_of(manifest), SystemRandom()
    cells: dict[Cell, set[int]] = {}
    touched: set[Cell] = set()
    for place, row in enumerate(manifest.rows):
        picture = drawn.get(row.image)
        if picture is None:
            continue
        cell = picture.split, picture.subgroup
        if place in gone:
            touched.add(cell)
        else:
            cells.setdefault(cell, set()).add(groups[place])
    chosen: set[int] = set()
    waiting = sorted(touched)
    while waiting:
        for cell in waiting:
            there = cells.get(cell, set())
            # In a cell that nobody was in who withdrew, one of those who are left out beside stands for them.
            wanted = max(beside + (cell not in touched) - len(chosen & there), 0)
            rest = sorted(there - chosen)
            chosen |= {*random.sample(rest, min(wanted, len(rest)))}
        waiting = sorted(
            cell
            for cell, there in cells.items()
            if (met := len(chosen & there)) and met < beside + (cell not in touched) and there - chosen
        )
    return frozenset(place for place, group in enumerate(groups) if group in chosen)


def refuse_others_moved(before: Drawn, now: Drawn, left: Manifest) -> None:
    """Refuse a manifest of which the job makes something else than of the one before.

    Raises:
        LabelError: a class or a subgroup would have no picture, or no labelled one to train on.
        SplitError: a picture that stays would be in another split, class or subgroup, or in none.
    """
    for what, of in (("class", "label"), ("subgroup", "subgroup")):
        were, are = ({getattr(each, of) for each in drawn.values()} for drawn in (before, now))
        lost = were - are - {""}  # no label and no subgroup are none that the run would lack
        if lost:
            raise LabelError(
                f"nobody else has pictures of {what} {', '.join(sorted(lost))}: without them the run "
                "would have other classes or subgroups here. Leave the run (the coordinator goes on with "
                "--without), or begin a new one without the patient"
            )
    trained, trains = (
        {each.subgroup for each in drawn.values() if each.split == "train" and each.label}
        for drawn in (before, now)
    )
    if trained - trains:
        named = ", ".join(sorted(group or "undeclared" for group in trained - trains))
        raise LabelError(
            f"no labelled picture to train on would be left of subgroup {named}: a run under way cannot go "
            "on so here. Leave the run (the coordinator goes on with --without), or begin a new one without "
            "the patient"
        )
    moved = [
        f"{row.image}: {said(before.get(row.image))} before, {said(now.get(row.image))} now"
        for row in left.rows
        if before.get(row.image) != now.get(row.image)
    ]
    if moved:
        raise SplitError(
            f"{len(moved)} pictures of others would change:\n{listing(moved)}\nNothing is written. Does the "
            "manifest equal the one that the run has, and is the job its job?"
        )


def said(picture: DrawnPicture | None) -> str:
    """What a job makes of a picture, in words."""
    if picture is None:
        return "left out"
    return f"{picture.split}, {picture.label or 'unlabelled'}, {picture.subgroup or 'no subgroup'}"


def refuse_same_files(before: Manifest, gone: frozenset[int], left: Manifest, drawn: Drawn) -> None:
    """Refuse to leave a picture of whoever withdraws under another row.

    Raises:
        ManifestError: naming the rows whose files have the same bytes.
    """
    theirs = {drawn[before.rows[place].image].content for place in gone if before.rows[place].image in drawn}
    same = [row.image for row in left.rows if row.image in drawn and drawn[row.image].content in theirs]
    if same:
        raise ManifestError(
            f"{len(same)} pictures that stay are the same files as pictures that go:\n{listing(same)}\n"
            "give them the patient_id of whoever withdraws, if they are theirs, or take them out"
        )
