"""Splits stay when labels come: what a model has trained on is not tested on next."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from clients.data.errors import SplitError
from clients.data.manifests.csv_file import read_manifest, write_manifest
from clients.data.manifests.manifest import Manifest, Row
from clients.data.outcomes.labelling import label
from clients.data.outcomes.pinning import drawn_splits, pin
from clients.data.prepare import prepare
from registry.bundle.pictures.rule import PictureRule
from tests.clients.data.outcomes.conftest import answer_id, by_id, outcome
from training.data.dataset import SPLITS
from training.data.settings import DataConfig

RULE = PictureRule(size=12)
CONFIG = DataConfig(manifest="manifest.csv", image_size=12)
SEED = 3


def rows(count: int = 40) -> list[Row]:
    """Two pictures of the lesion of each patient; those of every other one have no label."""
    return [
        Row(f"{number}-{part}.png", label="" if number % 2 else ("MEL", "NV", "BCC")[number % 3],
            lesion_id=f"L{number}", patient_id=f"P{number}",)
        for number in range(count)
        for part in "ab"
    ]  # fmt: skip


def splits_of(path: Path) -> dict[int, str]:
    """The split of each picture in a job on a manifest, by the digest of its bytes."""
    dataset = prepare(CONFIG, seed=SEED, folder=path.parent, cache=path.parent / "cache")
    (client,) = dataset.clients
    return {
        name: split for split in SPLITS for name in dataset.examples(client, split).identities[:, 0].tolist()
    }


def digest(path: Path, row: Row) -> int:
    """By what a picture is known in a job."""
    content = hashlib.sha256((path.parent / row.image).read_bytes()).digest()
    return int.from_bytes(content[:8], "big", signed=True)


@pytest.fixture
def labelled(write_pictures):
    """A manifest, and the same with the labels that outcomes give to a third of the unlabelled."""
    path = write_pictures(rows())
    before = read_manifest(path)
    answered = [(row.image, answer_id(place)) for place, row in enumerate(before.rows) if not row.label]
    said = by_id(*(outcome(place, "MEL") for place in range(0, len(before.rows), 3)))
    return path, before, label(before, answered, said)[0]


def drawn(path: Path) -> dict[str, str]:
    return drawn_splits(CONFIG, SEED, path, path.parent / "cache", RULE)


def test_drawn_splits_are_those_of_the_job(labelled):
    path, before, _ = labelled
    found = drawn(path)
    by_digest = {digest(path, row): found[row.image] for row in before.rows}
    assert by_digest == splits_of(path)


def trained_and_judges(path: Path, labelled: Manifest, at_first: dict[int, str]) -> int:
    """Pictures that a model has trained on and another one is judged by now."""
    write_manifest(labelled, path)
    now = splits_of(path)
    names = [digest(path, row) for row in labelled.rows if row.label]
    return sum(at_first[name] == "train" and now[name] != "train" for name in names)


def test_what_was_trained_on_judges_no_model_later(labelled):
    path, before, after = labelled
    at_first, stays = splits_of(path), pin(before, after, drawn(path))
    assert trained_and_judges(path, after, at_first) > 0  # the control: splits that are drawn anew
    assert trained_and_judges(path, stays, at_first) == 0
    now = splits_of(path)
    for row in before.rows:
        if row.label:
            assert now[digest(path, row)] == at_first[digest(path, row)]


def test_labels_of_outcomes_alone_are_for_training(labelled):
    path, before, after = labelled
    for row in pin(before, after, drawn(path)).rows:
        if row.value("label_from") == "outcome":
            assert row.split == "train"


def test_a_patient_who_judges_models_stays_and_new_labels_can_be_left_out(write_pictures):
    those = [replace(row, split="test") if row.patient_id == "P0" else row for row in rows()]
    path = write_pictures([*those, Row("0-c.png", patient_id="P0")])
    before = read_manifest(path)
    after = pin(before, label(before, [("0-c.png", answer_id(1))], by_id(outcome(1, "MEL")))[0], drawn(path))
    assert [(row.label, row.split) for row in after.rows if row.image == "0-c.png"] == [("MEL", "test")]
    write_manifest(after, path)

    def left_out(config):
        return prepare(config, seed=SEED, folder=path.parent, cache=path.parent / "cache").report.left_out

    found = left_out(CONFIG)
    assert (found.nobody, len(found.handed_on)) == (0, 1)
    assert (
        "1 pictures that models are judged or calibrated by have a label for an outcome" in found.handed_on[0]
    )
    without = left_out(CONFIG.model_copy(update={"train_only": {"label_from": "outcome"}}))
    assert (without.nobody, without.handed_on) == (1, ())


def test_without_a_job_nothing_is_written_where_splits_would_change(labelled):
    _, before, after = labelled
    with pytest.raises(SplitError, match=r"--splits job.yaml"):
        pin(before, after, None)
    assert pin(before, before, None) is before
    given = [replace(row, split="train") for row in before.rows]
    pin(before.keep(given), after.keep([replace(row, split="train") for row in after.rows]), None)


def test_a_split_that_is_there_is_never_changed(labelled):
    path, before, after = labelled
    held = [replace(row, split="calibration") if row.patient_id == "P1" else row for row in after.rows]
    for row in pin(before, after.keep(held), drawn(path)).rows:
        if row.patient_id == "P1":
            assert row.split == "calibration"


def test_a_manifest_that_has_no_label_needs_no_job(write_pictures):
    before = read_manifest(write_pictures([Row("a.png"), Row("b.png")]))
    after = pin(before, label(before, [("a.png", answer_id(1))], by_id(outcome(1, "MEL")))[0], None)
    assert [row.split for row in after.rows] == ["train", ""]
