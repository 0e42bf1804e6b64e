from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.data.errors import ClientDataError, UnknownColumnError
from clients.data.manifest import Row
from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from training.data.dataset import SPLITS, Dataset
from training.data.settings import DataConfig

WritePictures = Callable[[list[Row]], Path]


def pairs(count: int = 30) -> list[Row]:
    """A close-up and a dermoscopic picture of each lesion."""
    return [
        Row(
            f"images/{kind}-{number:03d}.png",
            label="MEL" if number % 2 else "NV",
            lesion_id=f"L{number}",
            extra={"kind": kind},
        )
        for number in range(count)
        for kind in ("close-up", "dermoscopic")
    ]


def prepared(path: Path, **settings: Any) -> PreparedDataset:
    config = DataConfig(manifest=path.name, image_size=12, **settings)
    return prepare(config, seed=0, folder=path.parent, cache=path.parent / "cache")


def pixels(dataset: Dataset, split: Any) -> set[bytes]:
    found = set()
    for client in dataset.clients:
        examples = dataset.examples(client, split)
        found |= {one.tobytes() for one in examples.batch(np.arange(len(examples)))}
    return found


@pytest.mark.parametrize(
    "more", [{}, {"clients": {"by": "iid", "count": 3}}, {"server": {"share": 0.2, "train": 0.5}}]
)
def test_judged_pictures_are_those_of_a_job_without_them(write_pictures, more):
    path = write_pictures(pairs())
    alone = prepared(path, where={"kind": "close-up"}, **more)
    both = prepared(path, train_only={"kind": "dermoscopic"}, **more)
    if "server" not in more:  # the server's own are drawn among all pictures
        for split in SPLITS[1:]:
            assert pixels(both, split) == pixels(alone, split)
        assert pixels(alone, "train") < pixels(both, "train")
    close_ups = {
        pixel for split in SPLITS for pixel in pixels(prepared(path, where={"kind": "close-up"}), split)
    }
    for split in SPLITS[1:]:
        assert pixels(both, split) <= close_ups


def test_a_lesion_that_is_judged_by_is_not_trained_on(write_pictures):
    dataset = prepared(write_pictures(pairs()), train_only={"kind": "dermoscopic"})
    (client,) = dataset.clients
    lesions = {split: set(dataset.examples(client, split).lesions.tolist()) for split in SPLITS}
    assert all(not lesions["train"] & lesions[split] for split in SPLITS[1:])
    # 18 of 30 lesions train, with two pictures each; the dermoscopic pictures of the other 12 are nobody's.
    assert len(lesions["train"]) == 18
    assert len(dataset.examples(client, "train")) == 36
    assert dataset.report.left_out.nobody == 12


def test_a_lesion_without_a_judged_picture_trains(write_pictures):
    rows = [row for row in pairs() if not (row.lesion_id == "L3" and row.extra["kind"] == "close-up")]
    path = write_pictures(rows)
    with_it = prepared(path, train_only={"kind": "dermoscopic"})
    assert len(pixels(with_it, "train")) > len(pixels(prepared(path, where={"kind": "close-up"}), "train"))
    everything = [row for row in rows if row.lesion_id != "L3"]
    without = prepared(write_pictures(everything), train_only={"kind": "dermoscopic"})
    assert with_it.report.pictures == without.report.pictures + 1


def test_a_given_split_cannot_be_straddled(write_pictures):
    rows = [
        replace(row, split="test" if row.lesion_id == "L0" and row.extra["kind"] == "close-up" else "")
        for row in pairs()
    ]
    dataset = prepared(write_pictures(rows), train_only={"kind": "dermoscopic"})
    (client,) = dataset.clients
    trained = set(dataset.examples(client, "train").lesions.tolist())
    tested = set(dataset.examples(client, "test").lesions.tolist())
    assert not trained & tested


def test_wrong_columns_and_nothing_left_are_refused(write_pictures):
    path = write_pictures(pairs())
    with pytest.raises(UnknownColumnError, match="kind"):
        prepared(path, train_only={"kinds": "dermoscopic"})
    with pytest.raises(ClientDataError, match="no picture to judge a model by"):
        prepared(path, train_only={"kind": ["dermoscopic", "close-up"]})
