"""A patient withdraws, and a curious coordinator subtracts: numbers of before less numbers of after.

It has the census of two runs, or in one run the numbers behind an update and its losses before and after. The
hospital is the real node without its network; who withdraws is written by the real command.
"""

import itertools
import json

import pytest

from benchmarks.loopback.permissive import permissive
from clients.data.manifests.csv_file import read_manifest, write_manifest
from clients.data.manifests.manifest import Manifest, Row
from tests.attacks.house import DATA, LEAST, PRIVACY, House, someone_in
from training.engines.nvflare.roster import ClientProperties, DataChange, agree
from training.federation.blocks import EvaluateQuestion, read_blocks
from training.federation.census import CENSUS
from training.jobs.job import Job


@pytest.fixture
def job(tiny):
    return Job.model_validate({**tiny, "data": DATA, "privacy": PRIVACY})


@pytest.fixture
def house(tmp_path, job, monkeypatch):
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    return House(tmp_path, job)


def test_two_censuses_tell_what_a_withdrawn_patient_had(house):
    """The control: where no policy asks for more, the difference is the patient."""
    before = house.census("first")
    patient = someone_in(house, "train")
    cell, pictures = house.cell(patient), house.pictures_of(patient)
    house.withdraw(patient)
    difference = before - house.census("second")
    assert difference[cell] == pictures
    assert difference.sum() == pictures


def test_with_the_policy_a_run_is_refused_that_would_and_one_that_leaves_out_others_is_not(house):
    permissive(house.folder, census_apart=True)
    before = house.census("first")
    assert (house.census("again") == before).all(), "the same pictures as often as runs come"
    patient, all_of_them = someone_in(house, "train"), house.manifest
    split, group, _ = house.cell(patient)
    house.withdraw(patient)
    assert house.census("second") is None
    assert any("differ by fewer than 3 patients (1) of one split and subgroup" in line for line in house.said)
    house.manifest = all_of_them
    house.withdraw(patient, beside=LEAST - 1)
    after = house.census("third")
    difference = (before - after).sum(axis=2)
    assert difference[split, group] >= LEAST
    assert difference.sum() == difference[split, group]


@pytest.mark.long
def test_over_many_runs_no_two_censuses_differ_by_few_patients(house):
    """Patients withdraw one after another; each split and subgroup is as it was, or others are gone too."""
    permissive(house.folder, census_apart=True)
    told, held = [house.census("first")], [dict(house.drawn())]
    for number, split in enumerate(("train", "test", "train", "validation")):
        patient = someone_in(house, split)
        house.withdraw(patient, beside=LEAST - 1)
        found = house.census(f"run {number}")
        assert found is not None, house.said[-1]
        told.append(found)
        held.append(dict(house.drawn()))
    whose = {row.image: row.patient_id for row in read_manifest(house.folder / "manifest.csv").rows}
    for one in range(len(held)):
        for other in range(one):
            gone: dict[tuple[str, str], set[str]] = {}
            left = {(made.split, made.subgroup) for made in held[one].values()}
            for image, made in held[other].items():
                if image not in held[one]:
                    gone.setdefault((made.split, made.subgroup), set()).add(whose[image])
            few = {cell: who for cell, who in gone.items() if len(who) < LEAST and cell in left}
            assert not few
            assert gone, "something was withdrawn"
    assert all((one >= other).all() for one, other in itertools.pairwise(told))


@pytest.mark.long
def test_a_patient_who_comes_waits_until_there_are_enough(house):
    permissive(house.folder, census_apart=True)
    read = read_manifest(house.manifest)
    drawn = house.drawn()
    rows = [
        Row(row.image, row.label, row.skin_tone, "fitzpatrick", row.lesion_id, row.patient_id, "", made.split)
        for row in read.rows
        if (made := drawn[row.image])
    ]
    test = [row.patient_id for row in rows if row.split == "test" and row.skin_tone == "1"]
    come = list(dict.fromkeys(test))[:LEAST]
    everybody = house.manifest
    for count in (LEAST, LEAST - 1, 0):
        without = [row for row in rows if row.patient_id not in come[:count]]
        house.manifest = house.folder / f"without-{count}.csv"
        write_manifest(Manifest.of(without, everybody.parent), house.manifest)
        taken = house.census(f"run {count}")
        assert (taken is None) == (count == LEAST - 1)


def fit_before_and_after(house):
    """Two answers to the same question, before and after a patient withdrew from a run."""
    first = house.start("run")
    assert house.join(first)
    before = house.ask(first, "fit")
    patient = someone_in(house, "train")
    cell, pictures = house.cell(patient), house.pictures_of(patient)
    known = ClientProperties.model_validate_json(first.introduce()).fingerprint
    house.withdraw(patient)
    second = house.start("run")
    now = ClientProperties.model_validate_json(second.introduce()).fingerprint
    assert house.join(second, DataChange(client="north", before=known, after=now))
    return before, house.ask(second, "fit"), ("light", "dark")[cell[1]], pictures, second


def test_within_a_run_no_number_tells_of_a_patient_who_withdrew(house):
    counted = house.census("another")
    before, after, group, _, handler = fit_before_and_after(house)
    assert after.num_examples == before.num_examples
    assert before.losses.keys() - after.losses.keys() == {group}
    # Nor does a coordinator that asks for the census learn more than it knew.
    now = house.ask(handler, CENSUS, 2)
    assert now.scalars == {}
    assert (now.tensors[CENSUS].numpy() == counted).all()


def test_without_the_numbers_of_before_an_update_tells_of_the_patient(house, monkeypatch):
    """The control: how many pictures, and from the mean losses what the model said of them."""
    monkeypatch.setattr("training.jobs.client_app.as_told_before", lambda update, *_, **__: update)
    before, after, group, pictures, _ = fit_before_and_after(house)
    assert before.num_examples[group] - after.num_examples[group] == pictures
    assert group in after.losses


@pytest.mark.parametrize("accounted", [True, False])
def test_counts_of_answers_are_held_against_the_census(house, monkeypatch, accounted):
    """How many test pictures there were the census told; they are asked about later. Last, the control."""
    if not accounted:
        monkeypatch.setattr("clients.node.removal.account_for_told", lambda *_: None)
    first = house.start("run")
    assert house.join(first)
    census = house.ask(first, CENSUS).tensors[CENSUS].numpy()
    known = ClientProperties.model_validate_json(first.introduce()).fingerprint
    patient = someone_in(house, "test")
    split, group, label = house.cell(patient)
    pictures = house.pictures_of(patient)
    house.withdraw(patient)
    second = house.start("run")
    now = ClientProperties.model_validate_json(second.introduce()).fingerprint
    assert house.join(second, DataChange(client="north", before=known, after=now))
    question = EvaluateQuestion(split="test", subgroups=("light", "dark")).model_dump()
    blocks = read_blocks(house.ask(second, "evaluate", **question).tensors)
    name = ("light", "dark")[group]
    assert (name in blocks) == (not accounted)
    if not accounted:
        counted = blocks[name].point.confusion.sum(axis=-1)
        assert census[split, group, label] - counted[label] == pictures


def test_who_has_no_list_is_not_taken_up(house):
    first = house.start("run")
    assert house.join(first)
    known = ClientProperties.model_validate_json(first.introduce()).fingerprint
    house.withdraw(someone_in(house, "train"))
    second = house.start("run")  # nothing was asked of the first, as in a run of a version before
    now = ClientProperties.model_validate_json(second.introduce()).fingerprint
    roster = agree(house.job, [ClientProperties.model_validate_json(second.introduce())], {})
    change = DataChange(client="north", before=known, after=now)
    refused = json.loads(second.join(roster.model_copy(update={"changes": (change,)}).model_dump_json()))
    assert "there is no list here of the pictures that it began the run with" in refused["refused"]
