"""Data preparation, from a job's `data` block to arrays: read, filter, label, decode, split, partition."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clients.data.case_groups import group_cases
from clients.data.enough_patients import refuse_narrow
from clients.data.errors import BrokenPicturesError, ClientDataError
from clients.data.label_map import DROPPED, UNLABELLED, label_pictures, of_kinds
from clients.data.manifest import name_pictures, number_lesions
from clients.data.output import listing_by_cause, plain_notes
from clients.data.partition import partition
from clients.data.partition_rules import NOBODY
from clients.data.picture_files import DecodedPictures, PictureFile, decode_once
from clients.data.picture_names import UnusablePicture, by_cause
from clients.data.prepared import BrokenPicture, DataReport, PictureTable, PreparedDataset, count_cells
from clients.data.sources import filtered, read_sources
from clients.data.subgroups import assign_subgroups, read_traits, require_columns
from registry.bundle.pictures.rule import PictureRule
from training.data.dataset import FOLDED_CLASSES
from training.data.settings import DataConfig
from training.data.subgroups import IntersectionConfig
from training.data.unused import Unused


def prepare(
    config: DataConfig,
    *,
    seed: int,
    folder: Path,
    cache: Path,
    intersections: Sequence[IntersectionConfig] = (),
    whole: bool = True,
    rule: PictureRule | None = None,
    least: int = 1,
) -> PreparedDataset:
    """Prepare the data set of a job, as its `data` block asks.

    Args:
        config: the `data` block.
        seed: the job's seed, from which splits, partitions and labels to keep are drawn.
        folder: what relative paths in `config` start from: the job file's folder.
        cache: where decoded and made-up pictures are kept.
        intersections: columns of which the pictures' traits are kept.
        whole: whether these are all of the job's pictures, and not one hospital's own.
        rule: how a picture becomes pixels; by default as `config` says by itself.
        least: of how many patients all must be that `where`, label maps and `train_only` keep or leave out.

    Raises:
        ClientDataError: the pictures cannot be used as the job asks; see `clients.data.errors`.
    """
    sources = read_sources(config, folder, cache)
    require_columns(sources, intersections)
    total = sum(len(source.manifest.rows) for source in sources)
    matched = filtered(sources, config)
    labelling = label_pictures(matched, sources, config.label_map)
    codes = [label.code for label in labelling.labels]
    labelled = [
        (picture, number)
        for picture, number in zip(matched, labelling.classes, strict=True)
        if number != DROPPED
    ]

    if least > 1:
        rows = [row for source in sources for row in source.manifest.rows]
        refuse_narrow(rows, matched, [picture for picture, _ in labelled], least)

    files = list(dict.fromkeys(picture.file for picture, _ in labelled))
    rule = rule or config.picture
    decoded = decode_once(files, rule, cache)
    broken, causes = _broken(files, decoded, config)
    place = {file: number for number, file in enumerate(files) if number not in decoded.broken}
    usable = [(picture, number) for picture, number in labelled if picture.file in place]
    if not usable:
        raise ClientDataError(
            f"none of {total} pictures is left: {len(labelled)} have a label that the job keeps, and "
            f"{len(broken)} files are broken; check `where`, `label_map` and the pictures"
        )

    pictures = [picture for picture, _ in usable]
    classes = [number for _, number in usable]
    places = np.array([place[picture.file] for picture in pictures], dtype=np.int64)
    seen = np.array([not picture.unseen for picture in pictures], dtype=bool)
    grouping = assign_subgroups([picture.row for picture in pictures], config.subgroups, seen, whole=whole)
    assignment = partition(
        pictures,
        decoded.contents[places],
        [
            (FOLDED_CLASSES if picture.unseen else codes)[number] if number >= 0 else ""
            for picture, number in usable
        ],
        grouping,
        sources,
        config,
        seed=seed,
    )

    held = assignment.partition.holders != NOBODY
    undeclared = Counter(grouping.reasons[place] for place in held.nonzero()[0] if grouping.reasons)
    undeclared.pop("", None)
    notes = tuple(note for source in sources for note in source.manifest.notes)
    traits = read_traits([picture.row for picture in pictures], intersections, config.subgroups)
    table = PictureTable(
        rows=places[held],
        labels=np.where(assignment.labelled, np.array(classes, dtype=np.int64), UNLABELLED)[held],
        subgroups=grouping.members[held],
        lesions=number_lesions([picture.row for picture in pictures])[held],
        clients=assignment.partition.holders[held],
        splits=assignment.splits[held],
        traits=traits.members[held] if traits.values else None,
        names=name_pictures([picture.row for picture in pictures], decoded.contents[places])[held],
    )
    shown, beyond_slots = len(table.rows), 0
    if config.case is not None:
        rows = [picture.row for picture, keep in zip(pictures, held.tolist(), strict=True) if keep]
        grouped = group_cases(rows, table, config.case)
        table, shown, beyond_slots = grouped.table, grouped.pictures, grouped.beyond_slots
    return PreparedDataset(
        labels=of_kinds(labelling.labels, config.kinds, config.groups, whole=whole),
        subgroups=grouping.names,
        clients=assignment.partition.clients,
        fingerprint=_fingerprint(
            decoded.contents,
            table,
            [
                *([config.case.model_dump_json()] if config.case is not None else []),
                *(str(config.image_size), *codes, *grouping.names, *assignment.partition.clients),
                *(f"unseen {client}" for client in assignment.unseen),
                *((rule.interpolation,) if rule.interpolation != "bilinear" else ()),
                *(f"{column}: {value}" for column, values in traits.values.items() for value in values),
            ],
        ),
        images_path=decoded.path,
        table=table,
        report=DataReport(
            pictures=shown,
            lesions=len(np.unique(table.lesions)),
            counts=count_cells(table, assignment.partition.clients, grouping.names, codes, assignment.unseen),
            left_out=Unused(
                where=total - len(matched),
                label_map=len(matched) - len(labelled),
                broken=len(labelled) - len(usable),
                nobody=int((~held).sum()),
                beyond_slots=beyond_slots,
                listed=total,
                causes=causes,
                reading=notes,
                handed_on=plain_notes(notes),
                undeclared=dict(sorted(undeclared.items())),
            ),
            broken=broken,
        ),
        unseen=assignment.unseen,
        communities=assignment.communities,
        traits=traits.values,
        case=config.case,
    )


def _broken(
    files: Sequence[PictureFile], decoded: DecodedPictures, config: DataConfig
) -> tuple[tuple[BrokenPicture, ...], dict[str, int]]:
    """The pictures that cannot be decoded, and how many there are of each cause.

    Raises:
        BrokenPicturesError: there are some, and the job refuses them.
    """
    broken = [
        UnusablePicture(str(files[number]), files[number], why)
        for number, why in sorted(decoded.broken.items())
    ]
    causes = by_cause(broken)
    if broken and config.on_broken == "refuse":
        raise BrokenPicturesError(
            f"{len(broken)} of {len(files)} pictures cannot be used:\n"
            f"{listing_by_cause(causes)}\n"
            f"mend or remove them, or set `on_broken: skip`"
        )
    return (
        tuple(BrokenPicture(picture.shown, picture.reason) for picture in broken),
        {cause: len(pictures) for cause, pictures in causes.items()},
    )


def _fingerprint(contents: NDArray[np.uint8], table: PictureTable, names: Sequence[str]) -> str:
    """A digest of pictures and their use, the same wherever they lie and in whatever order.

    Args:
        contents: SHA-256 of the bytes of every picture, by its row.
        table: of pictures, or of cases, which are identified by all their pictures, kinds and facts.
        names: what the numbers in the table represent.
    """
    uses = np.stack([table.labels, table.subgroups, table.clients, table.splits], axis=1)
    if table.traits is not None:
        uses = np.concatenate([uses, table.traits], axis=1)
    cases = table.cases
    if cases is None:
        entries = sorted(
            bytes(content) + use.tobytes() for content, use in zip(contents[table.rows], uses, strict=True)
        )
    else:
        entries = sorted(
            contents[pictures[pictures >= 0]].tobytes() + kinds.tobytes() + facts.tobytes() + use.tobytes()
            for pictures, kinds, facts, use in zip(
                cases.pictures, cases.kinds, cases.context, uses, strict=True
            )
        )
    digest = hashlib.sha256(json.dumps(names).encode())
    digest.update(b"".join(entries))
    return f"sha256:{digest.hexdigest()}"
