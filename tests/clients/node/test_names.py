"""Attacks by names from the network that lead out of a kit: each entry, and what is without the check."""

from pathlib import Path

import pytest

from clients.federation.job_folder import pack
from clients.node.hospital import open_gateway
from clients.store import ClientStore
from tests.clients.node.talk import SESSION, ask, handshake, join
from training.algorithms.client import State
from training.coordinator import Coordinator
from training.engines.calls import ChunkAddress
from training.engines.roster import ClientProperties
from training.engines.wire import RequestHeader
from training.errors import JobError, MessageError
from training.files import LONGEST, plain_segment
from training.jobs.job import Job

OUT = "../../../../victim"
ODD = [
    "",
    ".",
    "..",
    ".hidden",
    "x.",
    " x",
    "x ",
    "x\0",
    "x\n",
    "x\u202e",
    "\ud800",
    "$HOME",
    "x" * (LONGEST + 1),
]
BAD = [OUT, "/etc", "a/b", "a\\b", "C:x", "~/x", *ODD]


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def victim(tmp_path):
    """Files of the hospital that are none of ours, where a run of that name would have its own."""
    for name in ("answers", "clients", ""):
        (tmp_path / "victim" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "victim" / name / "patients.csv").write_text("smith, jane")
    (tmp_path / "victim" / "arriving-1.safetensors").write_text("theirs")
    return tmp_path / "victim"


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_more_than_a_segment_is_refused_in_one_place(name):
    with pytest.raises(MessageError, match="no plain name"):
        plain_segment(name)


@pytest.mark.parametrize("name", ["skin-lesions-5f2a91c3-00ffee11", "north", "0-federate", "haut.v2", "é-1"])
def test_plain_names_are_as_they_were(name):
    assert plain_segment(name) == name


def test_a_run_that_leads_out_of_the_kit_touches_nothing_and_is_refused(kit, small_job, victim):
    before = everything(victim)
    gateway = open_gateway(kit, pack(small_job), OUT)
    gateway.close()
    assert everything(victim) == before
    assert "no plain name" in handshake(gateway, small_job)


def test_without_the_check_it_deletes_files_of_the_hospital(kit, small_job, victim, monkeypatch):
    monkeypatch.setattr("clients.node.hospital.plain_segment", lambda name, what: name)
    before = everything(victim)
    gateway = open_gateway(kit, pack(small_job), OUT)
    gateway.close()
    assert everything(victim) != before
    assert not (victim / "answers" / "patients.csv").exists()


def test_a_run_that_leads_out_of_the_coordinators_kit_is_refused(small_job):
    with pytest.raises(MessageError, match="no plain name"):
        Coordinator(pack(small_job), OUT)


def test_a_job_of_such_a_name_is_none(tiny):
    with pytest.raises(ValueError, match="name"):
        Job.model_validate({**tiny, "name": OUT})


@pytest.mark.parametrize("field", ["session", "client", "stage", "ask"])
def test_a_question_with_such_a_name_is_none(field):
    plain = {"job": "sha256:1", "session": "s", "number": 1, "round": 1, "kept": 0}
    good = {**plain, "client": "north", "stage": "0-federate", "ask": "fit"}
    assert RequestHeader.model_validate(good).ask == "fit"
    with pytest.raises(MessageError, match="no plain name"):
        RequestHeader.model_validate({**good, field: OUT})


def test_nor_is_a_chunk_of_such_a_session_or_a_site_of_such_a_name():
    with pytest.raises(MessageError, match="no plain name"):
        ChunkAddress(session=OUT, number=1, offset=0, size=1)
    with pytest.raises(MessageError, match="no plain name"):
        ClientProperties(client=OUT, labels=(), subgroups=(), fingerprint="")


def test_what_may_be_any_text_is_kept_under_no_path_of_its_own(gateway, small_job, victim, tmp_path):
    """A track is a subgroup's name, a tensor's is whatever a model says: both may hold slashes and dots."""
    join(gateway, small_job)
    before = everything(victim)
    there = everything(tmp_path)
    assert isinstance(ask(gateway, small_job, "fit", 1, track=OUT), list)
    new = everything(tmp_path).keys() - there.keys()
    for number, what in enumerate(("collect", "gossip"), start=2):
        ask(gateway, small_job, what, number, track=OUT)
    assert everything(victim) == before
    assert new, "something is kept of a training"
    assert all("/house/north/" in path or "/cache/" in path for path in new)


def test_a_store_that_took_names_as_they_are_would_write_there(tmp_path, monkeypatch):
    store = ClientStore(tmp_path / "kit" / "private" / "runs" / "run" / "clients")
    monkeypatch.setattr("clients.store._file_name", str)
    store.save("north", OUT, 1, State({}, {}))
    [written] = tmp_path.rglob("round-*")
    assert tmp_path / "kit" / "private" / "runs" / "run" not in written.parents


def test_a_job_that_asks_for_a_file_of_the_hospital_does_not_learn_its_digest(kit, small_job, tmp_path):
    """`model.weights` may be any path; a digest would tell a table of few possible contents."""
    secret = tmp_path / "patients.csv"
    secret.write_text("smith, jane: melanoma")
    changed = small_job.model_dump(mode="json") | {
        "model": {**small_job.model.model_dump(mode="json"), "weights": str(secret)}
    }
    job = Job.model_validate(changed)
    from training.engines.roster import WEIGHTS, shake_hands
    from training.jobs.stages.export import weights_digest

    found = weights_digest(job.model)
    gateway = open_gateway(kit, pack(job), "skin-2")
    for known in (None, "sha256:guess"):
        told = gateway.handshake(shake_hands(job.digest, SESSION, known).model_dump_json())
        assert found.removeprefix("sha256:") not in told
    told = gateway.handshake(shake_hands(job.digest, SESSION, found).model_dump_json())
    assert f'"{WEIGHTS}"' in told  # whoever has the file knows it already
    assert JobError.code == "job"
