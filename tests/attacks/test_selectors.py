"""A job is not a request about one patient: each of its selectors, used to single somebody out.

North has sixty patients with a lesion each, of which one is asked about. A curious coordinator sends one or
two jobs, reads north's censuses and takes them apart. Each attack is carried out twice: at a hospital whose
policy says nothing, and, as the control, at one whose policy allows everything, for a job of single patients.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks.loopback.permissive import permissive
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import write_manifest
from clients.node.guards import PolicyGuard
from clients.node.policy import POLICY
from clients.node.request_handler import RequestHandler
from training.data import settings
from training.data.dataset import SPLITS
from training.engines.calls import REFUSED
from training.engines.roster import ClientProperties, agree, shake_hands
from training.engines.wire import read_response, stamp_of, write_payload, write_request
from training.jobs.disclosure_report import over_network
from training.jobs.job import Job
from training.messages import Broadcast
from training.rounds.census import CENSUS

PATIENTS, VICTIM = 60, 7
OTHERS = tuple(f"{n}" for n in range(PATIENTS) if n != VICTIM)
MASKED = {"counts": {"masks": True}}
FEDERATION = ("north", "south", "east")
TONES = {"scale": "fitzpatrick", "groups": {"light": ["1"], "dark": ["6"]}}


@dataclass
class North:
    """A hospital that answers censuses.

    Attributes:
        folder: of its pictures, and of what its node keeps.
        tiny: a job to change.
        guarded: whether it goes by the values that hold without a policy; else its policy allows everything.
        columns: that its policy allows.
        told: what it said of itself before a census, in each job.
        said: its own log.
    """

    folder: Path
    tiny: dict[str, Any]
    guarded: bool
    columns: tuple[str, ...] = ()
    told: list[ClientProperties] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """The victim is of the rare diagnosis, malignant, the only one of its clinic and seen twice."""
        rows = []
        for n in range(PATIENTS):
            victim = n == VICTIM
            label = "MEL" if victim or n % 3 == 0 else "NV"
            more = {
                "mrn": f"{n}",
                "clinic": "ward" if victim else "house",
                "code": "RARE" if victim else label,
            }
            for part in "ab" if victim else "a":
                shade = 60 if part == "a" else 160
                Image.new("RGB", (16, 16), (4 * n, shade, 255 - 4 * n)).save(self.folder / f"{n}{part}.png")
                tone = "6" if victim or n % 2 else "1"
                rows.append(Row(f"{n}{part}.png", label, tone, "fitzpatrick", f"L{n}", f"P{n}", extra=more))
        return rows

    def census(self, data: dict[str, Any], rows: list[Row] | None = None, seed: int = 3) -> np.ndarray | None:
        """The census of a job `(splits, subgroups + 1, classes + 1)`; None where north refuses."""
        number = len(self.said)
        manifest = self.folder / "manifest.csv"
        write_manifest(Manifest.of(self.rows() if rows is None else rows, self.folder), manifest)
        block = {"manifest": "north.csv", "label_map": "malignancy", "image_size": 16, **data}
        privacy = {"min_count": 10 if self.guarded else 1, **MASKED}
        plain = {**self.tiny, "seed": seed, "data": block, "privacy": privacy}
        job = over_network(Job.model_validate(plain))
        policy = self.folder / "policy"
        guard = PolicyGuard(policy / POLICY)  # of a hospital that has written nothing down
        if not self.guarded:
            permissive(policy, columns=list(self.columns))
        elif self.columns:
            policy.mkdir(exist_ok=True)
            guard.path.write_text(f"privacy: {{columns: [{', '.join(self.columns)}]}}")
        handler = RequestHandler(
            "north",
            job,
            manifest,
            cache=self.folder / "cache",
            states=self.folder / f"run-{number}" / "clients",
            say=self.said.append,
            releases=self.folder / "releases",
            federation=FEDERATION,
            guard=guard,
        )
        if REFUSED in handler.handshake(shake_hands(job.digest, "s1").model_dump_json()):
            return None
        introduction = handler.register()
        if REFUSED in introduction:
            return None
        self.told.append(ClientProperties.model_validate_json(introduction))
        if handler.join(agree(job, [self.told[-1]], {}).model_dump_json()) != "{}":
            return None
        request = Broadcast("north", CENSUS, 1, CENSUS, tensors={})
        stamp = stamp_of(request, job.digest, "s1", 1)
        answer = read_response(*handler.answer(write_request(request, stamp, 0), write_payload({})), stamp)
        return answer.tensors[CENSUS].numpy()


@pytest.fixture(params=[True, False], ids=["guarded", "control"])
def north(request, tiny, tmp_path):
    return North(tmp_path, tiny, request.param)


def classes(census):
    """Pictures by class."""
    return None if census is None else census.sum(axis=(0, 1))[:-1].tolist()


def difference(more, fewer):
    """What one census has beyond another, by class; None where either was refused."""
    return None if more is None or fewer is None else (np.array(classes(more)) - classes(fewer)).tolist()


ONE_MALIGNANT = [0, 2]  # the victim's two pictures


@pytest.mark.parametrize("guard", ["names patients", "no column", "a few patients"])
def test_where_keeps_one_patient(north, guard, monkeypatch):
    if guard == "names patients" and not north.guarded:
        monkeypatch.setattr(settings, "IDENTIFYING", ())
    column = "patient_id" if guard == "names patients" else "mrn"
    wanted = ["P7", "P900"] if guard == "names patients" else ["7", "900"]
    if guard == "a few patients" or not north.guarded:
        north.columns = (column,)
    told = classes(north.census({"where": {column: wanted}}))
    assert told == (None if north.guarded else ONE_MALIGNANT)
    if north.guarded:
        assert north.told == []
        named = {"names patients": "data.where by patient_id", "no column": "the column mrn"}
        assert named.get(guard, "data.where keeps 2 pictures of 1 patients") in north.said[-1]


def test_where_leaves_one_patient_out(north):
    north.columns = ("mrn",)
    all_but_one = north.census({"where": {"mrn": OTHERS}})
    assert difference(north.census({}), all_but_one) == (None if north.guarded else ONE_MALIGNANT)


def test_a_label_map_keeps_one_patient(north):
    rows = coded(north.rows())
    told = north.census({"label_map": {"RARE": "malignant", "MEL": None, "NV": None}}, rows)
    assert classes(told) == (None if north.guarded else [2])


def test_a_label_map_leaves_one_patient_out(north):
    rows = coded(north.rows())
    without = north.census({"label_map": {"RARE": None, "MEL": "malignant", "NV": "benign"}}, rows)
    whole = north.census({"label_map": {"RARE": "malignant", "MEL": "malignant", "NV": "benign"}}, rows)
    assert difference(whole, without) == (None if north.guarded else ONE_MALIGNANT)


def test_a_label_map_makes_a_class_of_one_patient(north):
    """And so tells the skin tone."""
    rows = coded(north.rows())
    told = north.census({"label_map": {"RARE": "a", "MEL": "b", "NV": "b"}, "subgroups": TONES}, rows)
    tone = told[:, :, 0].sum(axis=0).tolist()
    light, dark = (north.told[0].subgroups.index(name) for name in ("light", "dark"))
    assert (tone[light], tone[dark]) == ((0, 0) if north.guarded else (0, 2))


def test_two_label_maps_differ_by_one_patient(north):
    """Nothing but its class: splits that are drawn would differ by labels, too, so they are given."""
    splits = ("train", "train", "test")
    rows = [Row(**{**fields(row), "split": splits[n // 2 % 3]}) for n, row in enumerate(coded(north.rows()))]
    maps = [{"RARE": rare, "MEL": "malignant", "NV": "benign"} for rare in ("malignant", "benign")]
    one, two = (north.census({"label_map": each, "subgroups": TONES}, rows) for each in maps)
    if north.guarded:
        assert two is None
    else:
        dark = north.told[0].subgroups.index("dark")
        assert (one - two)[:, dark].sum(axis=0).tolist() == [-2, 2, 0]


def test_subgroups_by_column_hold_one_patient(north):
    north.columns = ("clinic",)
    told = north.census({"subgroups": {"column": "clinic"}})
    if north.guarded:
        assert north.told[0].subgroups == ("house",)
        assert not told[:, -1].any(), "the victim is in no subgroup, and too few by itself even there"
    else:
        assert told[:, north.told[0].subgroups.index("ward")].sum(axis=0).tolist() == [0, 2, 0]


def test_subgroups_by_column_are_the_hospital_s_to_allow(north):
    if not north.guarded:
        north.columns = ("clinic",)
    assert (north.census({"subgroups": {"column": "clinic"}}) is None) == north.guarded


def test_subgroups_by_tone_hold_one_patient(north):
    rows = [
        row if row.patient_id == "P7" else Row(**{**fields(row), "skin_tone": "1"}) for row in north.rows()
    ]
    told = north.census({"subgroups": TONES}, rows)
    if north.guarded:
        assert north.told[0].subgroups == ("light",)
    else:
        assert told[:, north.told[0].subgroups.index("dark")].sum(axis=0).tolist() == [0, 2, 0]


def test_intersections_are_the_hospital_s_to_allow(north):
    north.tiny["evaluation"] = {"intersections": [{"column": "clinic"}]}
    if not north.guarded:
        north.columns = ("clinic",)
    assert (north.census({}) is None) == north.guarded


def test_train_only_tells_one_patient(north):
    """Training pictures with the victim among them, less those of a job that has it where it falls."""
    north.columns = ("mrn",)
    rows = [
        Row(**{**fields(row), "split": "test" if row.patient_id == "P7" else row.split})
        for row in north.rows()
    ]
    told = [north.census(data, rows) for data in ({"train_only": {"mrn": "7"}}, {})]
    if north.guarded:
        assert told[0] is None
    else:
        train = SPLITS.index("train")
        assert (told[0] - told[1])[train].sum(axis=0).tolist() == [0, 2, 0]


def test_shares_of_labels_differ_by_few_patients(north):
    """Two shares of labels, drawn by one seed, differ by whom one has and the other has not."""
    one, two = (north.census({"label_fraction": share}) for share in (0.5, 0.55))
    if north.guarded:
        assert two is None
    else:
        assert 0 < sum(difference(two, one)) < 5


def test_few_labels_are_none(north):
    told = north.census({"label_fraction": 0.05})
    labelled = told[SPLITS.index("train"), :, :-1].sum()
    assert labelled == 0 if north.guarded else 0 < labelled < 5


def test_splits_of_other_shares_differ_by_few_patients(north):
    shares = {"train": 0.4, "validation": 0.2, "calibration": 0.2, "test": 0.2}
    other = {**shares, "train": 0.42, "test": 0.18}
    one, two = (north.census({"split": each}) for each in (shares, other))
    if north.guarded:
        assert two is None
    else:
        moved = (one - two)[SPLITS.index("test")].sum(axis=0)[:-1]
        assert 0 < abs(moved).sum() < 5


def test_lesions_in_place_of_pictures_tell_who_has_two(north):
    pictures, lesions = (north.census({"unit": unit}) for unit in ("picture", "lesion"))
    assert difference(pictures, lesions) == (None if north.guarded else [0, 1])


def test_a_picture_that_broke_tells_its_patient(north):
    whole = north.census({"on_broken": "skip"})
    rows = north.rows()
    for part in "ab":
        (north.folder / f"{VICTIM}{part}.png").write_bytes(b"broken")
    assert difference(whole, north.census({"on_broken": "skip"}, rows)) == (
        None if north.guarded else ONE_MALIGNANT
    )


def test_nothing_is_trained_on_a_few_patients(north):
    rows = [
        Row(**{**fields(row), "split": "train" if n < 4 else "test"}) for n, row in enumerate(north.rows())
    ]
    told = north.census({}, rows)
    assert (told is None) == north.guarded
    if north.guarded:
        assert "4 pictures to train on are of 4 patients" in north.said[-1]


def test_a_hospital_of_enough_patients_of_each_takes_part_in_one_job_again_and_again(north):
    """The control of the other kind: nothing above is refused for its own sake."""
    told = [north.census({"subgroups": TONES}, seed=seed) for seed in (3, 3)]
    assert all(each is not None for each in told)
    assert np.array_equal(*told)


def fields(row):
    """A row as plain data."""
    return {name: getattr(row, name) for name in Row.__slots__}


def coded(rows):
    """The rows with the victim's diagnosis by a code of its own."""
    return [Row(**{**fields(row), "label": row.extra["code"]}) for row in rows]
