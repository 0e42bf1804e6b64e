"""Splits that stay: labels that come later change how splits are drawn, and a model may have trained already.

Splits are dealt by label. One more label shifts the line along which they are dealt, so that pictures that a
model has trained on would be test pictures of the next job. So before a label changes, what an earlier job
drew is written into the column `split`, which every job honours:

- pictures that had a label before any outcome, and all that must stay with them (of a lesion, of a patient,
  of a duplicate group), stay in the split that the job drew;
- where all labels are outcomes', they go to `train`: who is followed up is no matter of chance, and no model
  is to be judged or calibrated by them;
- pictures without any label stay open: nobody is judged by them.

A split that is there is never changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clients.data.errors import SplitError
from clients.data.filtering import filtered
from clients.data.labels.common_codes import label_pictures
from clients.data.labels.label_map import DROPPED
from clients.data.labels.subgroups import assign_subgroups
from clients.data.manifests.groups import components, linkage_keys
from clients.data.manifests.manifest import LABEL_FROM, OUTCOME, Manifest, Row
from clients.data.own_config import own_config
from clients.data.partition.partition import partition
from clients.data.pictures.cache import decode_once
from clients.data.sources import read_sources
from registry.bundle.pictures.rule import PictureRule
from training.data.dataset import SPLITS
from training.data.settings import DataConfig

OWN_SPLITS = ("manifest", "source")  # of `data.clients.by`: every hospital draws its own


def pin(before: Manifest, after: Manifest, drawn: Mapping[str, str] | None) -> Manifest:
    """The manifest with labels of outcomes, and with splits that stay.

    Args:
        before: as it was, to know what changed.
        after: the same rows with the labels that outcomes give.
        drawn: the split of each picture that an earlier job drew, by image; None where no job is known.

    Raises:
        SplitError: a split would change, and what was drawn is not known.
    """
    if [row.label for row in before.rows] == [row.label for row in after.rows]:
        return after
    groups = components([linkage_keys(row) for row in after.rows]).tolist()
    members: dict[int, list[Row]] = {}
    for row, group in zip(after.rows, groups, strict=True):
        members.setdefault(group, []).append(row)
    splits = {group: _split(those, drawn) for group, those in members.items()}
    unknown = sum(
        splits[group] is None and not row.split for row, group in zip(after.rows, groups, strict=True)
    )
    if unknown:
        raise SplitError(
            f"{unknown} labelled pictures have no split, and with other labels a job draws other splits: "
            "what a model was trained on could be tested on next. Name the job that it was trained by "
            "(--splits job.yaml), and its splits are written down; before the first one, name that which is "
            "to come"
        )
    rows = [
        replace(row, split=row.split or splits[group] or "")
        for row, group in zip(after.rows, groups, strict=True)
    ]
    return after.keep(rows)


def _split(rows: Sequence[Row], drawn: Mapping[str, str] | None) -> str | None:
    """The split of rows that stay together; empty where it stays open, None where it is not known."""
    given = next((row.split for row in rows if row.split), None)
    if given is not None:
        return given
    if not any(row.label for row in rows):
        return ""
    if not any(row.label and row.value(LABEL_FROM) != OUTCOME for row in rows):
        return "train"
    if drawn is None:
        return None
    # One that the job left out has no split there: by it nobody was judged.
    return next((drawn[row.image] for row in rows if row.image in drawn), "")


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


def drawn_splits(
    data: DataConfig, seed: int, manifest: Path, cache: Path, rule: PictureRule, client: str | None = None
) -> dict[str, str]:
    """The split of each picture of a manifest, by image; see `drawn_pictures`."""
    drawn = drawn_pictures(data, seed, manifest, cache, rule, client)
    return {image: picture.split for image, picture in drawn.items()}


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
