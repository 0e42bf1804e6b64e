"""A patient withdraws in the middle of a run over real processes: files go, and the run ends."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.loopback.federated import ADMIN, ROOT
from clients.data.manifests.csv_file import read_manifest
from clients.data.withdrawal.drawn import drawn_pictures
from clients.node.journal import FOLDER, read_journal
from training.jobs.job import read_job

pytestmark = pytest.mark.long
PICTURES = {"north": 40, "south": 29, "east": 32}
ROUNDS = 12


@pytest.fixture(scope="module")
def net(federated):
    return federated(PICTURES)


def someone(net, job):
    """A patient of north among whose pictures a model is trained, and the pictures."""
    read, path = read_job(job), net.folder / "north.csv"
    drawn = drawn_pictures(read.data, read.seed, path, net.folder / "look", read.picture, "north")
    rows = read_manifest(path).rows
    patient = next(row.patient_id for row in rows if drawn[row.image].split == "train")
    return patient, [Path(row.image) for row in rows if row.patient_id == patient]


def test_a_patient_is_withdrawn_between_rounds_and_the_run_ends(net, own_job, wait_until, ended):
    job = own_job(net, rounds=ROUNDS)
    out = net.folder / "there"
    net.send(job, out)
    wait_until(lambda: net.metrics_log("tiny"), "the first round")
    net.kill("north")  # all are needed: the run waits
    done = len(net.metrics_log("tiny"))
    assert done < ROUNDS - 2, "it was not stopped in time"
    roster = json.loads((net.results("tiny") / "roster.json").read_text())

    patient, pictures = someone(net, job)
    main = "from clients.data.cli import main; main()"
    command = [sys.executable, "-c", main, "withdraw", str(net.folder / "north.csv")]
    asked = ["--patient", patient, "--splits", str(job), "--out", str(net.folder / "without.csv"), "--json"]
    made = subprocess.run(
        [*command, *asked, "--client", "north"],
        env=net.environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["withdrawn"] == len(pictures)
    for path in pictures:
        path.unlink()
    shutil.copyfile(net.folder / "without.csv", net.folder / "north.csv")
    net.kill(ADMIN)
    net.start("north")
    net.send(job, out, "--resume", "--changed-data", "north")
    ended(net)

    lines = net.metrics_log("tiny")
    assert [line["round"] for line in lines] == [*range(1, ROUNDS + 1)]
    assert all("north" in line["answered"] for line in lines)
    after = [line for line in lines if "changed_data" in line]
    assert after
    assert all(list(line["changed_data"]) == ["north"] for line in after)
    summary = json.loads((out / "summary.json").read_text())
    [change] = summary["changed_data"]
    assert change["before"] == roster["fingerprints"]["north"] != change["after"]
    assert change["last"] == f"0-federate {len(lines) - len(after)}"
    assert "north took pictures out of its data in the middle of the run" in (out / "report.html").read_text()

    log = (net.kits / "north" / "node.log").read_text()
    assert f"{len(pictures)} of the {PICTURES['north']} pictures that this run began with are gone" in log
    entries = list(read_journal(net.kits / "north" / FOLDER))
    assert sum(each.kind == "answer" and each.ask == "census" for each in entries) == 1
    assert not any(each.kind == "refusal" for each in entries)
