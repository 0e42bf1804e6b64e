"""A node's request handler: whom it greets, what it answers, and what it refuses."""

import errno
import json
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.loopback.permissive import permissive
from clients.data.errors import LabelError
from clients.data.manifest import Row
from clients.node.request_handler import RequestHandler, task_line
from clients.store import ClientStore
from training.algorithms.client import State
from training.engines.roster import WEIGHTS, ClientProperties, agree, shake_hands
from training.engines.wire import read_response, stamp_of, write_payload, write_request
from training.errors import CheckpointError, MessageError, public_message
from training.jobs.job import Job
from training.messages import Broadcast, Failure
from training.models import initial_model
from training.models.classifier import float_state
from training.privacy.compression import lost_key
from training.rounds.client.fit import store_key as training_key


@pytest.fixture
def job(tiny):
    tiny["data"] = {"manifest": "x.csv", "label_map": "malignancy", "image_size": 16}
    tiny["stages"][0]["sync"] = {"name": "except", "groups": ["norm"]}
    return Job.model_validate(tiny)


@pytest.fixture
def handler(job, tmp_path):
    """`handler(manifest, said)`: one that has been asked nothing; what it says at home is in `said`."""

    def make(manifest, said=None):
        places = {"cache": tmp_path / "cache", "states": tmp_path / "states", "guard": permissive(tmp_path)}
        return RequestHandler(
            "north", job, manifest, say=[].append if said is None else said.append, **places
        )

    return make


def fourteen(second="NV", name="{}.png"):
    return [Row(name.format(n), ("MEL", second)[n % 2], lesion_id=f"{n}") for n in range(14)]


@pytest.fixture
def node(job, handler, write_pictures):
    """A node that has greeted and joined."""
    made = handler(write_pictures(fourteen()))
    assert json.loads(made.handshake(shake_hands(job.digest, "s1").model_dump_json()))["job"] == job.digest
    told = ClientProperties.model_validate_json(made.register())
    assert made.join(agree(job, [told], {}).model_dump_json()) == "{}"
    return made


def fit(job, round_, number):
    weights = float_state(initial_model(job.model, job.seed, job.data.image_size, 2))
    request = Broadcast("north", "0-federate", round_, "fit", tensors=weights)
    stamp = stamp_of(request, job.digest, "s1", number)
    return write_request(request, stamp, round_ - 1), write_payload(weights), stamp


def test_other_versions_another_job_and_no_greeting_are_refused_by_name(job, node, monkeypatch):
    monkeypatch.setattr("clients.node.request_handler.weights_digest", lambda model: "sha256:1")
    ours = shake_hands(job.digest, "s2", "sha256:1")
    assert "refused" not in json.loads(node.handshake(ours.model_dump_json()))
    assert "refused" not in json.loads(node.handshake(shake_hands(job.digest, "s2").model_dump_json()))
    for change, told in (
        ({"versions": {**ours.versions, "dermfed": "9.9"}}, "the coordinator runs dermfed 9.9, this side"),
        ({"protocol": 99}, "speaks version 99 of our messages"),
        ({"versions": {**ours.versions, WEIGHTS: "sha256:2"}}, "begins with other weights"),
        ({"job": "sha256:other"}, "reads the job as sha256:other"),
    ):
        answer = json.loads(node.handshake(ours.model_copy(update=change).model_dump_json()))
        assert told in answer["refused"]
    assert "refused" in json.loads(node.handshake("{}"))


@pytest.mark.parametrize("change", [{"session": "s0"}, {"job": "sha256:x"}, {"client": "south"}])
def test_a_question_that_is_not_for_here_is_dropped(job, node, change):
    weights = float_state(initial_model(job.model, job.seed, job.data.image_size, 2))
    request = Broadcast("north", "0-federate", 1, "fit", tensors=weights)
    stamp = stamp_of(request, job.digest, "s1", 1).model_copy(update=change)
    with pytest.raises(MessageError, match="dropped"):
        node.answer(write_request(request, stamp, 0), write_payload(weights))


def test_a_question_that_another_has_overtaken_is_stale(job, node):
    node.answer(*fit(job, 2, 5)[:2])
    with pytest.raises(MessageError, match=r"request 4 .* is stale: request 5 has come since"):
        node.answer(*fit(job, 1, 4)[:2])


def test_the_same_question_again_gets_the_same_answer_without_work(job, node, monkeypatch):
    header, body, stamp = fit(job, 1, 1)
    first = node.answer(header, body)
    monkeypatch.setattr(type(node._app), "answer", None)
    assert node.answer(header, body) is first
    assert read_response(*first, stamp).num_examples


def test_what_was_kept_of_rounds_that_nobody_knows_of_is_forgotten(job, node, tmp_path):
    store = ClientStore(tmp_path / "states")
    # A name that is too long for a file is kept under a digest, which tells nothing of what is below it.
    track = "Haut " * 60
    of_training = [training_key("0-federate", track), lost_key("0-federate", track)]
    masks = "masks/0-federate/global/evaluate/masks"
    for round_ in (1, 2):
        for key in (*of_training, masks):
            store.save("north", key, round_, State({}, {"round": round_}))
    request = Broadcast("north", "0-federate", 2, "gossip", track)
    stamp = stamp_of(request, job.digest, "s1", 1)
    answer = read_response(*node.answer(write_request(request, stamp, 1), b""), stamp)
    assert "knows no request `gossip`" in answer.reason
    for key in of_training:
        assert store.load("north", key, 9).scalars == {"round": 1}
    # What waits for a sum is of no training.
    assert store.load("north", masks, 9).scalars == {"round": 2}


@pytest.mark.parametrize(
    ("stage", "track"), [("privacy", "counts"), ("privacy", "updates"), ("masks", "0-federate")]
)
def test_no_account_is_taken_back(job, node, tmp_path, stage, track):
    """A request about a stage of that name would have the node forget what it told, and tell it again."""
    store = ClientStore(tmp_path / "states")
    store.save("north", f"{stage}/{track}/test/light", 3, State({}, {"a": 2.0}))
    request = Broadcast("north", stage, 1, "fit", track)
    stamp = stamp_of(request, job.digest, "s1", 1)
    with suppress(Exception):  # whatever becomes of the request
        node.answer(write_request(request, stamp, 0), b"")
    assert store.load("north", f"{stage}/{track}/test/light", 9).scalars == {"a": 2.0}


def test_a_node_without_pictures_or_before_its_turn_says_so(job, handler):
    bare = handler(None)
    assert "started without --data" in json.loads(bare.register())["refused"]
    assert "before it has registered" in json.loads(bare.join("{}"))["refused"]
    bare.handshake(shake_hands(job.digest, "s1").model_dump_json())
    with pytest.raises(MessageError, match="asked before it joined"):
        bare.answer(*fit(job, 1, 1)[:2])


def test_no_path_leaves_with_an_introduction(job, node, tmp_path):
    told = node.register()
    assert str(tmp_path) not in told
    assert ".png" not in told
    assert set(json.loads(told)) == {"client", "labels", "subgroups", "fingerprint", "source", "unseen"}
    assert Path("manifest.csv").name not in told


@pytest.mark.parametrize(
    ("rows", "said_to_all", "at_home"),
    [
        (fourteen(name="smith-{}.png"), "pictures: some of its pictures cannot be decoded", "smith-3.png"),
        (fourteen("Smith, Jane"), "labels: its labels do not fit the job's label map", "Smith, Jane"),
    ],
    ids=["a file", "a table"],
)
def test_what_is_wrong_with_pictures_is_told_at_home_alone(
    handler, write_pictures, rows, said_to_all, at_home
):
    manifest, said = write_pictures(rows), []
    broken = manifest.parent / "smith-3.png"
    if broken.exists():
        broken.write_bytes(b"no picture")
    told = json.loads(handler(manifest, said).register())
    assert told == {"refused": f"{said_to_all}; its own log says more"}
    assert at_home in said[0]


def test_a_store_that_fails_discloses_no_path(job, node, tmp_path):
    said = []
    node._say = said.append
    header, body, stamp = fit(job, 2, 1)
    folder = node._store._place("north", "0-federate/global")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "round-000001.safetensors").write_bytes(b"broken")
    told = read_response(*node.answer(header.replace('"kept": 1', '"kept": 9'), body), stamp)
    assert told.reason == "data: its data cannot be used as the job asks; its own log says more"
    assert str(tmp_path) in said[0]


def test_whoever_watches_reads_whether_a_task_is_asked_again():
    """A full disk passes; wrong labels do not."""
    stamp = stamp_of(Broadcast("north", "0-federate", 2, "fit"), "sha256:1", "one", 3)
    full = CheckpointError("cannot write")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    lines = [
        task_line("skin", stamp, Failure("north", "global", public_message(error)), 2.5, 0)
        for error in (full, LabelError("CAT"))
    ]
    start = "job skin, 0-federate round 2, fit: not done after 2.5 s: "
    assert all(line.startswith(start) for line in lines)
    again = "The coordinator asks again, or goes on without it"
    assert [line.endswith(again) for line in lines] == [True, False]
