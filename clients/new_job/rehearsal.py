"""Who would hold what: splits and clients drawn as the job would draw them, without opening a picture.

Files with the same bytes are not known to be, so that a job may keep a few more pictures together than are
counted here.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from clients.data.errors import PartitionError, SubgroupError
from clients.data.filtering import filtered
from clients.data.labels.common_codes import label_pictures
from clients.data.labels.label_map import DROPPED
from clients.data.labels.subgroups import assign_subgroups
from clients.data.manifests.groups import components, linkage_keys, number_lesions
from clients.data.partition.partition import partition
from clients.data.sources import read_sources
from registry.bundle.manifest.labels import malignant_classes
from registry.bundle.manifest.schema import UNDECLARED
from training.data.dataset import SPLITS
from training.data.settings import DataConfig
from training.data.subgroup_settings import ToneGroups


@dataclass(frozen=True)
class GroupCounts:
    """What one subgroup would have in one split: labelled pictures, or lesions where lesions are diagnosed.

    Attributes:
        subgroup: its name; `undeclared` for pictures of none.
        split: train, validation, calibration or test.
        patients: how many they are of; a lesion or a picture stands for one who is not named.
        malignant: how many are malignant.
        others: how many are not, or it is not known.
        told: of how many patients clients may tell; one that has fewer than `min_count` tells nothing.
    """

    subgroup: str
    split: str
    patients: int
    malignant: int
    others: int
    told: int


@dataclass(frozen=True)
class Rehearsal:
    """Who would hold what.

    Attributes:
        clients: training pictures or lesions by client.
        groups: what each subgroup would have in each split.
        left_out: pictures that `label_map` leaves out.
        of_nobody: pictures that no client would hold.
        tones: by group of declared skin tones, its tones; empty where subgroups are not by tone.
        untold: by group, those of its tones of which no client has `min_count` patients in calibration and in
            test.
    """

    clients: dict[str, int]
    groups: tuple[GroupCounts, ...]
    left_out: int
    of_nobody: int
    tones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    untold: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def partly_told(self) -> tuple[str, ...]:
        """The untold tones of groups of which another tone is told of: the group cannot speak for them."""
        return tuple(
            tone
            for name, tones in self.untold.items()
            if len(tones) < len(self.tones[name])
            for tone in tones
        )

    def of(self, subgroup: str, split: str) -> GroupCounts:
        """The counts of one subgroup in one split."""
        return next(each for each in self.groups if (each.subgroup, each.split) == (subgroup, split))


def rehearse(config: DataConfig, folder: Path, *, seed: int, min_count: int) -> Rehearsal:
    """Draw splits and clients as the job would.

    Args:
        config: the job's `data` block, of manifests.
        folder: of the job file.
        seed: the job's seed.
        min_count: of pictures of fewer patients a client tells nothing.

    Raises:
        ClientDataError: the job would be refused for its data, saying why.
    """
    sources = read_sources(config, folder, folder)
    matched = filtered(sources, config)
    labelling = label_pictures(matched, sources, config.label_map)
    kept = [(p, n) for p, n in zip(matched, labelling.classes, strict=True) if n != DROPPED]
    pictures = [picture for picture, _ in kept]
    classes = np.array([number for _, number in kept])
    rows = [picture.row for picture in pictures]
    codes = [labelling.labels[number].code if number >= 0 else "" for number in classes]
    names = [hashlib.sha256(str(picture.file).encode()).digest() for picture in pictures]
    contents = np.frombuffer(b"".join(names), dtype=np.uint8).reshape(len(rows), -1)
    grouping = assign_subgroups(rows, config.subgroups)
    drawn = partition(pictures, contents, codes, grouping, sources, config, seed=seed)

    held = drawn.partition.holders >= 0
    units = number_lesions(rows) if config.unit == "lesion" else np.arange(len(rows))
    patients = components([linkage_keys(row) for row in rows])
    malignant = np.append(malignant_classes(labelling.labels), np.False_)[classes]
    train = drawn.splits == SPLITS.index("train")
    clients = {
        name: len(np.unique(units[train & (drawn.partition.holders == number)]))
        for number, name in enumerate(drawn.partition.clients)
    }
    _refuse_idle(clients)
    groups = []
    for number, name in [*enumerate(grouping.names), (-1, UNDECLARED)]:
        for place, split in enumerate(SPLITS):
            here = held & (grouping.members == number) & (drawn.splits == place) & (classes >= 0)
            at_clients = [
                len(np.unique(patients[here & (drawn.partition.holders == client)]))
                for client in range(len(clients))
            ]
            groups.append(
                GroupCounts(
                    name,
                    split,
                    len(np.unique(patients[here])),
                    len(np.unique(units[here & malignant])),
                    len(np.unique(units[here & ~malignant])),
                    sum(count for count in at_clients if count >= min_count),
                )
            )

    def told(scale: str, tone: str, split: str) -> bool:
        declared = np.array([(row.skin_tone_scale, row.skin_tone) == (scale, tone) for row in rows])
        here = held & declared & (drawn.splits == SPLITS.index(split)) & (classes >= 0)
        return any(
            len(np.unique(patients[here & (drawn.partition.holders == client)])) >= min_count
            for client in range(len(clients))
        )

    by_group = config.subgroups.tones if isinstance(config.subgroups, ToneGroups) else {}
    tones = {
        name: [(scale, tone) for scale, values in by_scale.items() for tone in values]
        for name, by_scale in by_group.items()
    }
    untold = {
        name: tuple(
            tone
            for scale, tone in claimed
            if not all(told(scale, tone, split) for split in ("calibration", "test"))
        )
        for name, claimed in tones.items()
    }
    counted = Rehearsal(
        clients,
        tuple(groups),
        len(matched) - len(kept),
        int((~held).sum()),
        {name: tuple(tone for _, tone in claimed) for name, claimed in tones.items()},
        untold,
    )
    _refuse_untrained(counted, grouping.names)
    return counted


def _refuse_idle(clients: dict[str, int]) -> None:
    idle = [name for name, count in clients.items() if not count]
    if idle:
        raise PartitionError(
            f"{', '.join(idle)} would have no training pictures; take other clients, such as parts:2"
        )


def _refuse_untrained(counted: Rehearsal, subgroups: Sequence[str]) -> None:
    absent = [name for name in subgroups if not counted.of(name, "train").patients]
    if absent:
        raise SubgroupError(
            f"the subgroup {', '.join(absent)} would have no labelled training picture; take others, or "
            "--subgroups none"
        )
