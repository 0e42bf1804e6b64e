"""What a job makes of each picture of a manifest: its split, subgroup and class."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.data.filtering import filtered
from clients.data.labels.label_map import DROPPED, label_pictures
from clients.data.labels.subgroups import assign_subgroups
from clients.data.own_config import own_config
from clients.data.partition.partition import partition
from clients.data.pictures.cache import decode_once
from clients.data.sources import read_sources
from registry.bundle.pictures.rule import PictureRule
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
