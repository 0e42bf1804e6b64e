"""A patient withdraws, and a curious coordinator subtracts: numbers of before less numbers of after.

It has the census of two runs. The hospital is the real node without its network; who withdraws is written by
the real command.
"""

import itertools

import pytest

from benchmarks.loopback.permissive import permissive
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import read_manifest, write_manifest
from clients.node.own_data import RunPictures
from tests.attacks.house import DATA, LEAST, PRIVACY, House, someone_in
from training.errors import DataError
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


def others_of(house, patient):
    """Patients of the same split and subgroup."""
    known = dict.fromkeys(row.patient_id for row in read_manifest(house.manifest).rows)
    return [name for name in known if name != patient and house.cell(name)[:2] == house.cell(patient)[:2]]


def test_with_the_policy_a_run_is_refused_that_would_until_enough_withdrew(house):
    permissive(house.folder, census_apart=True)
    before = house.census("first")
    assert (house.census("again") == before).all(), "the same pictures as often as runs come"
    patient = someone_in(house, "train")
    split, group, _ = house.cell(patient)
    more = others_of(house, patient)[: LEAST - 1]
    house.withdraw(patient)
    assert house.census("second") is None
    assert any("differ by fewer than 3 patients (1) of one split and subgroup" in line for line in house.said)
    house.withdraw(*more)
    after = house.census("third")
    difference = (before - after).sum(axis=2)
    assert difference[split, group] >= LEAST
    assert difference.sum() == difference[split, group]


@pytest.mark.long
def test_over_many_runs_no_two_censuses_differ_by_few_patients(house):
    """Patients withdraw one after another, and a run is tried after each: some are refused."""
    permissive(house.folder, census_apart=True)
    assert house.census("first") is not None
    told = [dict(house.drawn())]
    whose = {row.image: row.patient_id for row in read_manifest(house.manifest).rows}
    for number in range(2 * LEAST):
        house.withdraw(someone_in(house, "train"))
        if house.census(f"run {number}") is not None:
            told.append(dict(house.drawn()))
    assert 1 < len(told) < 2 * LEAST
    for one, other in itertools.combinations(reversed(told), 2):
        gone: dict[tuple[str, str], set[str]] = {}
        for image, made in other.items():
            if image not in one:
                gone.setdefault((made.split, made.subgroup), set()).add(whose[image])
        assert gone, "something was withdrawn"
        assert all(len(who) >= LEAST for who in gone.values())


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


@pytest.mark.parametrize("refused", [True, False])
def test_a_run_does_not_go_on_with_other_pictures(house, monkeypatch, refused):
    """Whatever roster is sent: a node knows of itself what its run began with. Last, the control."""
    if not refused:
        monkeypatch.setattr(RunPictures, "refuse_others", lambda *_: None)
    first = house.start("run")
    assert house.join(first)
    before = house.ask(first, "fit")
    patient = someone_in(house, "train")
    group, pictures = ("light", "dark")[house.cell(patient)[1]], house.pictures_of(patient)
    house.withdraw(patient)
    second = house.start("run")
    assert house.join(second) != refused
    if refused:
        assert any("not those that the run began with" in line for line in house.said)
        assert house.join(house.start("another run")), "a new run is another matter"
        return
    after = house.ask(second, "fit")
    assert before.num_examples[group] - after.num_examples[group] == pictures


def test_nor_does_a_process_that_joined_before_the_first_question(house):
    """Two processes of one run, the second with fewer pictures; the first is asked, then the second."""
    first = house.start("run")
    assert house.join(first)
    house.withdraw(someone_in(house, "train"))
    second = house.start("run")
    assert house.join(second), "nothing was told yet"
    house.ask(first, "fit")
    with pytest.raises(DataError, match="not those that the run began with"):
        house.ask(second, "fit")
