"""A patient withdraws while a run is under way: both sides agree, the run goes on, and numbers stay."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from clients.data.manifests.csv_file import read_manifest, write_manifest
from clients.data.withdrawal.drawn import drawn_pictures
from clients.data.withdrawal.withdraw import withdraw
from personalization.report.run_report import report_data
from tests.training.engines.conftest import HOSPITALS, decoded
from training.engines.nvflare.channel import StoppedError
from training.engines.nvflare.roster import Roster

LEAST = 2


@pytest.fixture
def begun(own_job, net, manifests, tmp_path, monkeypatch):
    """`begun(**changes)`: a run that was stopped after its first round; north has pictures of its own."""
    monkeypatch.setenv("DERMFED_CACHE", str(decoded(manifests)))

    def build(**changes):
        there = net(own_job(**{"federate": {"rounds": 2}, "privacy": {"min_count": LEAST}, **changes}))
        there.cache = tmp_path / "cache"
        there.manifests = {**manifests, "north": own_copy(manifests["north"], tmp_path / "north")}
        there.connect(*HOSPITALS)
        with pytest.raises(StoppedError):
            there.run(stopped=lambda: bool(there.metrics()))
        there.job_file = tmp_path / "job.yaml"
        there.job_file.write_text(yaml.safe_dump(there.job.resolved()))
        return there

    return build


def own_copy(manifest: Path, folder: Path) -> Path:
    """The manifest with its pictures copied, so that they can be deleted."""
    folder.mkdir()
    read = read_manifest(manifest)
    rows = []
    for number, row in enumerate(read.rows):
        copied = folder / f"{number}{Path(row.image).suffix}"
        shutil.copyfile(row.image, copied)
        rows.append(type(row)(**{**{key: getattr(row, key) for key in row.__slots__}, "image": str(copied)}))
    write_manifest(read.keep(rows), folder / "north.csv")
    return folder / "north.csv"


def patient_in(there, split):
    """A patient of north in a split who is not the only one of anything."""
    path = there.manifests["north"]
    drawn = drawn_pictures(there.job.data, there.job.seed, path, there.cache, there.job.picture, "north")
    rows = [row for row in read_manifest(path).rows if row.image in drawn and drawn[row.image].split == split]
    return rows[0].patient_id


def subgroup_of(there, patient):
    path = there.manifests["north"]
    drawn = drawn_pictures(there.job.data, there.job.seed, path, there.cache, there.job.picture, "north")
    return next(drawn[row.image].subgroup for row in read_manifest(path).rows if row.patient_id == patient)


def withdrawn(there, patient, tmp_path, name="without.csv"):
    """North leaves the patient's pictures out, deletes them and the cache, and starts again."""
    before = there.manifests["north"]
    out = tmp_path / name
    withdraw(before, [patient], there.job_file, out, client="north")
    for row in read_manifest(before).rows:
        if row.patient_id == patient:
            Path(row.image).unlink()
    shutil.rmtree(there.cache)
    there.manifests = {**there.manifests, "north": out}
    there.connect(*HOSPITALS)


@pytest.fixture
def heard():
    """`heard(there)`: what north is asked and answers from now on: headers of both."""

    def listen(there):
        told = []
        line = there.channels["north"]

        def after(header, answer):
            told.append((json.loads(header), json.loads(answer[0])))
            return answer

        line.after_ask = after
        return told

    return listen


def fits(told):
    return [answer for header, answer in told if header["ask"] == "fit"]


def test_with_the_consent_of_both_sides_it_goes_on_and_no_number_tells_of_it(begun, heard, tmp_path):
    there = begun()
    census = {path.name: path.read_bytes() for path in (there.run_folder.path / "census").iterdir()}
    roster = Roster.model_validate_json((there.run_folder.path / "roster.json").read_text())
    patient = patient_in(there, "train")
    withdrawn(there, patient, tmp_path)

    # The hospital alone is not enough.
    with pytest.raises(StoppedError):
        there.run(stopped=lambda: "waits for north" in there.progress.getvalue())
    assert "north returns with other data than it began the run with" in there.progress.getvalue()
    assert "--changed-data north" in there.progress.getvalue()

    there.connect(*HOSPITALS)
    told = heard(there)
    result = there.run(permits={"north": "once"})
    now = Roster.model_validate_json((there.run_folder.path / "roster.json").read_text())
    [change] = now.changes
    assert (change.client, change.before) == ("north", roster.fingerprints["north"])
    assert change.last == "0-federate 1"
    assert now.fingerprints == roster.fingerprints
    assert now.current("north") == change.after != change.before
    assert result.context.fingerprint == now.fingerprint != roster.fingerprint

    # No census again, and in every answer the numbers of pictures of before.
    assert "census" not in {header["ask"] for header, _ in told}
    assert census == {path.name: path.read_bytes() for path in (there.run_folder.path / "census").iterdir()}
    held = result.context.census
    [fit] = fits(told)
    assert fit["num_examples"] == {
        name: held.held("north", "train", [name])
        for name in held.all_subgroups
        if held.held("north", "train", [name])
    }
    assert len(fit["losses"]) < len(fit["num_examples"])

    # It is told wherever the run is told of, and by no number.
    entry = change.model_dump(exclude={"permit"})
    assert result.summary["changed_data"] == [entry]
    assert [list(line.get("changed_data", ())) for line in there.metrics()] == [[], ["north"]]
    [note] = [note for note in report_data(result).notes if note.startswith("north took pictures out")]
    assert change.after in note
    assert "stays in the weights" in note
    began = int(held.counts["north"].sum())
    assert any(f"of the {began} pictures that this run began with are gone" in line for line in there.said)


@pytest.mark.long
def test_of_the_split_in_which_the_patient_was_no_count_leaves(begun, tmp_path):
    """The figures of the round after lack all of north's pictures, and not the patient's alone."""
    data = {"split": {"train": 0.3, "validation": 0.4, "calibration": 0.1, "test": 0.2}}
    there = begun(
        data=data,
        privacy={"min_count": 2, "counts": {"masks": False}},
        engine={"update_limit": None},  # few pictures to train on go far
    )
    patient = patient_in(there, "validation")
    group = subgroup_of(there, patient)
    withdrawn(there, patient, tmp_path)
    result = there.run(permits={"north": "once"})
    first, second = (line["by_subgroup"][group]["n"] for line in there.metrics())
    assert first - second == result.context.census.held("north", "validation", [group]) > 2


@pytest.mark.parametrize(
    "what", ["added", *(pytest.param(what, marks=pytest.mark.long) for what in ("relabelled", "moved"))]
)
def test_the_node_refuses_everything_but_a_removal_whatever_the_coordinator_allows(begun, tmp_path, what):
    there = begun()
    path = there.manifests["north"]
    read = read_manifest(path)
    drawn = drawn_pictures(there.job.data, there.job.seed, path, there.cache, there.job.picture, "north")
    rows = [row for row in read.rows if row.image in drawn]
    kept = [
        type(row)(**{**{key: getattr(row, key) for key in row.__slots__}, "split": drawn[row.image].split})
        for row in rows
    ]
    new = {key: getattr(kept[0], key) for key in kept[0].__slots__}
    if what == "added":
        picture = tmp_path / "another.png"
        from PIL import Image

        Image.new("RGB", (32, 32), (9, 9, 9)).save(picture)
        kept.append(type(kept[0])(**{**new, "image": str(picture), "lesion_id": "new", "patient_id": "new"}))
    if what == "relabelled":
        other = next(row.label for row in kept if drawn[row.image].label != drawn[kept[0].image].label)
        kept = [
            type(row)(**{**{key: getattr(row, key) for key in row.__slots__}, "label": other})
            if row.patient_id == kept[0].patient_id
            else row
            for row in kept
        ]
    if what == "moved":
        split = "test" if kept[0].split != "test" else "train"
        kept = [
            type(row)(**{**{key: getattr(row, key) for key in row.__slots__}, "split": split})
            if row.patient_id == kept[0].patient_id
            else row
            for row in kept
        ]
    write_manifest(read.keep(kept), tmp_path / "changed.csv")
    there.manifests = {**there.manifests, "north": tmp_path / "changed.csv"}
    there.connect(*HOSPITALS)
    with pytest.raises(StoppedError):
        there.run(permits={"north": "once"}, stopped=lambda: "waits for north" in there.progress.getvalue())
    said = {"added": "was not there", "relabelled": "has another label", "moved": "is in another split"}[what]
    assert any(said in line for line in there.said)
    assert said not in there.progress.getvalue(), "that is for the hospital alone"
    roster = Roster.model_validate_json((there.run_folder.path / "roster.json").read_text())
    assert roster.changes == ()


@pytest.mark.long
def test_a_run_without_the_list_is_refused_with_the_reason_and_a_permit_is_good_once(
    begun, tmp_path, wait_until
):
    there = begun(federate={"rounds": 4})
    listed, north = there.folder / "north" / "pictures", there.channels["north"]
    wait_until(lambda: not north.waiting)  # it may be at work on the next round yet
    kept = shutil.copytree(listed, tmp_path / "kept")
    shutil.rmtree(listed)
    withdrawn(there, patient_in(there, "train"), tmp_path)
    with pytest.raises(StoppedError):
        there.run(permits={"north": "one"}, stopped=lambda: "waits for north" in there.progress.getvalue())
    assert "there is no list here of the pictures that it began the run with" in there.progress.getvalue()
    shutil.copytree(kept, listed)
    there.connect(*HOSPITALS)
    with pytest.raises(StoppedError):
        there.run(permits={"north": "one"}, stopped=lambda: len(there.metrics()) > 1)
    withdrawn(there, patient_in(there, "train"), tmp_path, "second.csv")
    told = len(there.progress.getvalue())
    with pytest.raises(StoppedError):
        there.run(
            permits={"north": "one"}, stopped=lambda: "waits for north" in there.progress.getvalue()[told:]
        )
    there.connect(*HOSPITALS)
    result = there.run(permits={"north": "two"})
    assert [change["client"] for change in result.summary["changed_data"]] == ["north", "north"]


@pytest.mark.long
@pytest.mark.parametrize("split", ["validation", "calibration"])
def test_models_are_personalized_and_calibrated_by_the_pictures_of_the_others(
    begun, federate_block, heard, tmp_path, split
):
    """The patient judged or calibrated models: north adds nothing there, and no number tells of it."""
    stages = [
        federate_block(rounds=2),
        {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "selection": {"band": 1.0}},
        {"stage": "export"},
        {"stage": "calibrate"},
    ]
    there = begun(
        federate=None,
        stages=stages,
        privacy={"min_count": 2, "counts": {"masks": False}},
        engine={"min_clients": 2},
    )
    patient = patient_in(there, split)
    group = subgroup_of(there, patient)
    withdrawn(there, patient, tmp_path)
    told = heard(there)
    result = there.run(permits={"north": "once"})
    assert next(iter(result.stages.values())).outcome.rounds == 2
    assert list(result.stages) == ["0-federate", "1-personalize", "2-export", "3-calibrate"]
    assert result.summary["changed_data"]
    held = result.context.census
    for header, answer in told:
        if header["ask"] == "fit":
            for name, number in answer["num_examples"].items():
                assert number == held.held("north", "train", [name])
        if header["ask"] == "log_likelihoods" and split == "calibration":
            assert group not in answer["num_examples"], "with the census it would tell of the patient"
