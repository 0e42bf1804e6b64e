"""Takes patients out of a manifest and writes down the splits that a job drew, so that nothing else moves.

Splits are dealt along a line, and one patient fewer shifts all that come after: what a model has learned
could be what it is judged by next. So the earlier splits are pinned, and what the job makes of the manifest
that is left is held against what it made of the one before, picture by picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clients.data.errors import ManifestError, PartitionError, SplitError
from clients.data.label_map import DROPPED, label_pictures
from clients.data.manifest import Manifest, components, linkage_keys
from clients.data.manifest_file import read_manifest, write_manifest
from clients.data.output import listing
from clients.data.partition import partition
from clients.data.picture_files import cache_folder, decode_once
from clients.data.sources import filtered, own_config, read_sources
from clients.data.subgroups import assign_subgroups
from registry.bundle.pictures.rule import PictureRule
from registry.bundle.text import nearest
from training.data.dataset import SPLITS
from training.data.settings import DataConfig

OWN_SPLITS = ("manifest", "source")  # of `data.clients.by`: every hospital draws its own


@dataclass(frozen=True)
class DrawnPicture:
    """What a job makes of one picture of a manifest.

    Attributes:
        split: as it draws it.
        subgroup: by the job's `subgroups`; empty where it is undeclared.
        label: the code of its class; empty where there is none.
        content: SHA-256 of its bytes.
    """

    split: str
    subgroup: str
    label: str
    content: bytes


def drawn_pictures(
    data: DataConfig, seed: int, manifest: Path, cache: Path, rule: PictureRule, client: str | None = None
) -> dict[str, DrawnPicture]:
    """What a job makes of each picture of a manifest, by image; those that it leaves out are absent.

    Args:
        data: the job's `data` block.
        seed: the job's.
        manifest: the hospital's.
        cache: where decoded pictures are kept.
        rule: how the job's pictures become pixels.
        client: the hospital's name in the job, where the job has several sources.

    Raises:
        ClientDataError: the pictures cannot be used as the job asks.
    """
    config = for_manifest(data, manifest, client)
    sources = read_sources(config, manifest.parent, cache)
    matched = filtered(sources, config)
    labelling = label_pictures(matched, sources, config.label_map)
    kept = [
        (picture, number)
        for picture, number in zip(matched, labelling.classes, strict=True)
        if number != DROPPED
    ]
    files = list(dict.fromkeys(picture.file for picture, _ in kept))
    decoded = decode_once(files, rule, cache)
    place = {file: number for number, file in enumerate(files) if number not in decoded.broken}
    usable = [(picture, number) for picture, number in kept if picture.file in place]
    pictures = [picture for picture, _ in usable]
    codes = [labelling.labels[number].code if number >= 0 else "" for _, number in usable]
    contents = decoded.contents[[place[picture.file] for picture in pictures]]
    grouping = assign_subgroups([picture.row for picture in pictures], config.subgroups, whole=False)
    assignment = partition(pictures, contents, codes, grouping, sources, config, seed=seed)
    groups = (grouping.names[member] if member >= 0 else "" for member in grouping.members.tolist())
    return {
        picture.row.image: DrawnPicture(SPLITS[split], group, code, content.tobytes())
        for picture, split, group, code, content in zip(
            pictures, assignment.splits.tolist(), groups, codes, contents, strict=True
        )
    }


def for_manifest(data: DataConfig, manifest: Path, client: str | None) -> DataConfig:
    """The `data` block of a job with this manifest for its pictures."""
    if data.clients.by in OWN_SPLITS:
        return own_config(data, client or manifest.stem, manifest)[0]
    origin: dict[str, Any] = {
        "manifest": str(manifest.absolute()),
        "adapter": None,
        "folder": None,
        "options": {},
    }
    return data.model_copy(update={**origin, "sources": ()})


Drawn = Mapping[str, DrawnPicture]


@dataclass(frozen=True)
class Withdrawn:
    """What became of a manifest's rows when patients withdrew.

    Attributes:
        pictures: how many rows are left.
        withdrawn: how many are of those who withdrew.
        withdrawn_used: how many of these the job uses.
        pinned: how many rows got a split.
    """

    pictures: int
    withdrawn: int
    withdrawn_used: int
    pinned: int


def withdraw(
    manifest: Path,
    patients: Sequence[str],
    job_file: Path,
    out: Path,
    *,
    client: str | None = None,
) -> tuple[Withdrawn, tuple[str, ...]]:
    """Write the manifest that is left when patients withdraw; the notes are those of reading it.

    Args:
        manifest: of the hospital, as the job's last run had it.
        patients: who withdraw.
        job_file: the job whose splits are to stay.
        out: the manifest to write; there is none where anything is wrong.
        client: the hospital's name in the job, where the job has several sources.

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
            "or get labels. Take the pictures out of the manifest, and expect splits and labels to move"
        )
    before = read_manifest(manifest)
    gone = rows_of(before, patients)
    name, cache = client or manifest.stem, cache_folder()

    def drawn(path: Path) -> Drawn:
        return drawn_pictures(job.data, job.seed, path, cache, job.picture, name)

    at_first = drawn(manifest)
    kept = [row for place, row in enumerate(before.rows) if place not in gone]
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
    found = Withdrawn(
        len(left.rows),
        len(gone),
        sum(before.rows[place].image in at_first for place in gone),
        sum(old.split != new.split for old, new in zip(kept, left.rows, strict=True)),
    )
    return found, before.notes


def rows_of(manifest: Manifest, patients: Sequence[str]) -> frozenset[int]:
    """The places of the rows that go with some patients.

    A row without a patient that is linked to one of theirs shows the same lesion or is the same picture, and
    goes too.

    Raises:
        ManifestError: no patient is named in the manifest, or not this one; or a row of another patient is
            linked to theirs.
    """
    known = list(dict.fromkeys(row.patient_id for row in manifest.rows if row.patient_id))
    if not known:
        raise ManifestError(
            f"no row of the manifest in {manifest.folder} has a patient_id, so nobody's pictures can be "
            "found; fill in the column patient_id of the rows of whoever withdraws, in all manifests alike"
        )
    for name in patients:
        if name not in known:
            raise ManifestError(
                f"no row has the patient_id {name!r}; {nearest(name, known)}. Nothing is written"
            )
    groups = components([linkage_keys(row) for row in manifest.rows]).tolist()
    theirs = {group for row, group in zip(manifest.rows, groups, strict=True) if row.patient_id in patients}
    places = frozenset(place for place, group in enumerate(groups) if group in theirs)
    others = sorted({manifest.rows[place].patient_id for place in places} - {*patients, ""})
    if others:
        raise ManifestError(
            f"pictures of {', '.join(others[:5])} are linked with those of {', '.join(patients)} by "
            "lesion_id or duplicate_group, so that it is not clear whose they are. Mend these columns before "
            "a run, or name both patients"
        )
    return places


def refuse_others_moved(before: Drawn, now: Drawn, left: Manifest) -> None:
    """Refuse a manifest of which the job makes something else than of the one before.

    Raises:
        SplitError: a picture that stays would be in another split, class or subgroup, or in none.
    """
    moved = [
        f"{row.image}: {said(before.get(row.image))} before, {said(now.get(row.image))} now"
        for row in left.rows
        if before.get(row.image) != now.get(row.image)
    ]
    if moved:
        raise SplitError(
            f"{len(moved)} pictures of others would change:\n{listing(moved)}\nNothing is written. Does the "
            "manifest equal the one that the last run had, and is the job its job?"
        )


def said(picture: DrawnPicture | None) -> str:
    """What a job makes of a picture, in words."""
    if picture is None:
        return "left out"
    return f"{picture.split}, {picture.label or 'unlabelled'}, {picture.subgroup or 'no subgroup'}"


def refuse_same_files(before: Manifest, gone: frozenset[int], left: Manifest, drawn: Drawn) -> None:
    """Refuse to leave a picture of the withdrawn patients under another row.

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
