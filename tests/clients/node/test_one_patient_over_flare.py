"""A job that asks a hospital about one patient, over real processes: refused; without the guard, done."""

import json
from dataclasses import replace

import pytest
import yaml

from benchmarks.loopback.permissive import permissive
from clients.data.manifest_file import read_manifest, write_manifest
from clients.node.policy import POLICY
from tests.clients.node.federated import HOSPITALS, data_of, running
from training.engines.wire import read_payload
from training.rounds.census import CENSUS

pytestmark = pytest.mark.long
STRICT = {"privacy": {"min_count": 10, "masked_counts": True, "fewest": 3, "census_apart": True}}


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    with running(tmp_path_factory.mktemp("one-patient")) as made:
        (made.deeds / "wire").mkdir()
        yield made


@pytest.fixture(scope="module")
def victim(net):
    """A patient of north, malignant and seen twice, whose pictures are in the training split."""
    manifest = read_manifest(net.folder / "north.csv")
    first, second = [row for row in manifest.rows if row.label == "MEL"][:2]
    theirs = {row.image: replace(row, patient_id=first.patient_id, split="train") for row in (first, second)}
    write_manifest(
        manifest.keep([theirs.get(row.image, row) for row in manifest.rows]), net.folder / "north.csv"
    )
    return theirs[first.image]


def request(net, tiny, name, victim, least):
    """One patient of north, and all those of the others."""
    others = [read_manifest(net.folder / f"{each}.csv").rows for each in HOSPITALS if each != "north"]
    wanted = [victim.patient_id, *dict.fromkeys(row.patient_id for rows in others for row in rows)]
    return {
        **tiny,
        "name": name,
        "data": {**data_of(), "label_map": None, "where": {"patient_id": wanted}},
        "privacy": {"min_count": least},
        "stages": [{**tiny["stages"][0], "rounds": 1, "evaluate_on": None}],
    }


def heard(net, ask):
    """What the coordinator heard of north in answer to a request: headers and tensors."""
    found = []
    for path in (net.deeds / "wire").glob("*.json"):
        header = json.loads(path.read_text())
        if header["client"] == "north" and header["ask"] == ask:
            found.append((header, read_payload(path.with_suffix(".body"))))
    return found


@pytest.mark.parametrize("policy", [None, STRICT], ids=["no policy", "strict"])
def test_it_is_refused_and_nothing_of_the_census_leaves(net, tiny, victim, policy):
    for name in HOSPITALS:
        (net.kits / name / POLICY).unlink(missing_ok=True)
        if policy is not None:
            (net.kits / name / POLICY).write_text(yaml.safe_dump(policy))
    ended, _ = net.there(request(net, tiny, f"asks-{'strict' if policy else 'none'}", victim, 10))
    assert ended.returncode != 0
    assert "data.where by patient_id" in ended.stderr
    assert heard(net, CENSUS) == heard(net, "fit") == []


def test_the_control_whose_guard_is_off_gives_the_patient_away(net, tiny, victim):
    (net.deeds / "unguarded").touch()
    for name in HOSPITALS:
        permissive(net.kits / name, columns=["patient_id"])
    ended, _ = net.there(request(net, tiny, "unguarded", victim, 1))
    assert ended.returncode == 0, ended.stderr
    [(_, census)] = heard(net, CENSUS)
    assert int(census[CENSUS].sum()) == 2
    classes = sorted(
        {row.label for each in HOSPITALS for row in read_manifest(net.folder / f"{each}.csv").rows}
    )
    [place] = census[CENSUS].sum(dim=(0, 1)).nonzero().flatten().tolist()
    assert classes[place] == victim.label
    [(header, tensors)] = heard(net, "fit")
    assert sum(header["num_examples"].values()) == 2
    assert tensors
