"""Attacks by errors that tell: whatever goes wrong at a hospital, its text stays there.

Each error holds a path, a patient and the name of a picture. It is raised in each phase of a node's work, and
nothing of it may be in what the coordinator gets.
"""

import json
import re
from pathlib import Path

import pytest
from nvflare.collab.api.decorators import is_publish
from nvflare.collab.runtime import dispatch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError

from clients.data.errors import BrokenPicturesError, LabelError, ManifestError
from clients.federation.errors import KitError
from clients.federation.job_folder import pack
from clients.federation.kit import open_kit
from clients.federation.processes import environment
from clients.node import hospital as hospitals
from clients.node.hospital import Hospital, keep_traces, open_gateway
from tests.clients.node.talk import ask, handshake, join, request
from training.engines.roster import ClientProperties, agree
from training.engines.wire import read_response
from training.errors import SENTENCES, CheckpointError, JobError, MessageError, TrainingError, public_message

PATH, PATIENT, PICTURE = "/data/ward-7/secret", "smith-jane", "IMG_0042.png"
SECRETS = (PATH, PATIENT, PICTURE, "ward-7")
TEXT = f"{PATH}/{PICTURE} of {PATIENT}"


def wrong(value: str) -> ValidationError:
    """What pydantic raises, with the value that was wrong in its text."""
    with pytest.raises(ValidationError) as found:
        TypeAdapter(int).validate_python(value)
    return found.value


def chained(error: Exception, cause: Exception) -> Exception:
    """An error of ours that was made of another one."""
    error.__cause__ = cause
    return error


ERRORS = {
    "os": OSError(28, "No space left on device", TEXT),
    "os-own-words": OSError(28, TEXT),
    "os-plain": OSError(TEXT),
    "not-found": FileNotFoundError(2, TEXT, TEXT),
    "value": ValueError(TEXT),
    "key": KeyError(TEXT),
    "unicode": UnicodeDecodeError("utf-8", TEXT.encode(), 0, 4, TEXT),
    "pydantic": wrong(TEXT),
    "json": json.JSONDecodeError(TEXT, TEXT, 0),
    "runtime": RuntimeError(PATIENT),
    "cuda": RuntimeError(f"CUDA error: {PATIENT}"),
    "memory": MemoryError(f"out of memory at {TEXT}"),
    "safetensors": SafetensorError(TEXT),
    "assertion": AssertionError(TEXT),
    "full-disk": chained(CheckpointError(f"cannot write {TEXT}"), OSError(28, "No space left", TEXT)),
    "message": MessageError(TEXT),
    "job": JobError(TEXT),
    "kit": KitError(TEXT),
    "labels": LabelError(TEXT),
    "manifest": ManifestError(TEXT),
    "pictures": BrokenPicturesError(TEXT),
    "bare": TrainingError(TEXT),
}


@pytest.fixture
def said(monkeypatch):
    """What the hospital's own log gets."""
    lines: list[str] = []
    monkeypatch.setattr(hospitals.LOGGER, "error", lambda form, text, **_: lines.append(text))
    monkeypatch.setattr(hospitals, "say", lines.append)
    return lines


def tells(text: object) -> list[str]:
    """The secrets in what left."""
    return [secret for secret in SECRETS if secret in f"{text}"]


def raising(error):
    def work(*_, **__):
        raise error

    return work


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS.keys())
def test_of_any_error_leaves_a_code_and_a_sentence_of_ours(error):
    told = public_message(error)
    code = told.partition(":")[0]
    assert SENTENCES[code] in told
    assert told.endswith("its own log says more")
    assert not tells(told)


CALLS = {
    "handshake": handshake,
    "register": lambda gateway, job: gateway.register(),
    "join": lambda gateway, job: gateway.join("{}"),
    "put": lambda gateway, job: gateway.put("{}", b""),
    "answer": lambda gateway, job: ask(gateway, job, "fit", 1),
    "fetch": lambda gateway, job: gateway.fetch("{}"),
    "ping": lambda gateway, job: gateway.ping(),
}
INSIDE = {"put": "put", "fetch": "fetch", "ping": "heartbeat"}


@pytest.mark.parametrize("call", CALLS)
def test_through_each_published_method_nothing_of_any_error_leaves(
    call, said, gateway, small_job, monkeypatch
):
    for error in ERRORS.values():
        where = gateway.receiver if call in INSIDE else gateway.receiver.handler
        monkeypatch.setattr(where, INSIDE.get(call, call), raising(error))
        told = CALLS[call](gateway, small_job)
        assert "refused" in json.loads(told)
        assert not tells(told), error
        assert tells(said[-1]), error  # and at home all of it is


def test_without_the_door_it_does(gateway, small_job, monkeypatch):
    monkeypatch.setattr("clients.node.outbound_gateway.public_message", str)
    monkeypatch.setattr(gateway.receiver.handler, "register", raising(ERRORS["full-disk"]))
    assert tells(gateway.register())


PHASES = {
    "reading pictures": ("clients.node.request_handler.read_own", "register"),
    "agreeing on classes": ("clients.node.request_handler.agreed", "join"),
    "making the model": ("training.jobs.client_app.initial_model", "join"),
    "counting pictures": ("training.jobs.client_app.take_census", "census"),
    "the canary": ("training.jobs.client_app.answer_canary", "canary"),
    "training": ("training.rounds.client.fit.train_locally", "fit"),
    "evaluating": ("training.rounds.client.evaluate.sendable", "evaluate"),
    "keeping a state": ("clients.store._write", "fit"),
    "writing the answer": ("clients.node.request_handler.write_long_payload", "fit"),
}
EVALUATE = {"split": "train", "subgroups": ["undeclared"]}


def in_phase(when, gateway, job, number):
    """What the node tells in a phase: a refusal, or an answer that says that it failed."""
    if when == "register":
        return gateway.register()
    if when == "join":
        properties = ClientProperties.model_validate_json(gateway.register())
        return gateway.join(agree(job, [properties], {}).model_dump_json())
    options = EVALUATE if when == "evaluate" else {}
    header, body, stamp = request(
        job, when, number, "census" if when == "census" else "0-federate", **options
    )
    told = gateway.answer(header, body, len(body))
    assert isinstance(told, str) or read_response(told[0], told[1], stamp).reason
    return told


@pytest.mark.parametrize("phase", PHASES)
def test_in_each_phase_nothing_of_an_error_leaves(phase, said, gateway, small_job, monkeypatch):
    target, when = PHASES[phase]
    if when not in ("register", "join"):
        join(gateway, small_job)
    for number, name in enumerate(("os-own-words", "full-disk", "pydantic", "labels"), start=1):
        said.clear()
        with monkeypatch.context() as patch:
            patch.setattr(target, raising(ERRORS[name]))
            told = in_phase(when, gateway, small_job, number)
        assert not tells(told), name
        assert any(tells(line) for line in said), name


def test_a_node_that_cannot_get_ready_says_so_by_a_code(kit, small_job, said, monkeypatch):
    for error in ERRORS.values():
        said.clear()
        monkeypatch.setattr(hospitals, "open_identity", raising(error))
        gateway = open_gateway(kit, pack(small_job), "skin-1")
        for call in CALLS.values():
            told = call(gateway, small_job)
            assert "refused" in json.loads(told)
            assert not tells(told)
        assert tells(said[0])


def test_what_flare_answers_for_us_tells_nothing_either(monkeypatch, caplog):
    """A call with arguments that no method takes fails before the gateway; FLARE sends its trace along."""
    for name in ("secure_format_traceback", "secure_format_exception"):
        monkeypatch.setattr(dispatch, name, getattr(dispatch, name))
    monkeypatch.setenv("NVFLARE_SECURE_LOGGING", "true")

    def told() -> str:
        try:
            raise ERRORS["value"]
        except ValueError as error:
            return f"{dispatch.secure_format_exception(error)} {dispatch.secure_format_traceback()}"

    assert "test_outbound_gateway.py" in told()  # a path of this machine, though FLARE calls it secure
    keep_traces(hospitals.LOGGER)
    assert not tells(answered := told())
    assert ".py" not in answered
    assert tells(caplog.text)


def test_a_hospitals_processes_have_flare_keep_texts_of_errors(kit, kits):
    assert environment(kit)["NVFLARE_SECURE_LOGGING"] == "true"
    assert "NVFLARE_SECURE_LOGGING" not in environment(open_kit(kits / "server", "server"))


def test_texts_that_leave_as_they_are_are_vouched_for_in_known_places():
    """`public` is for texts of what the other side sent: whoever adds a place reads it with that in mind."""
    root = Path(hospitals.__file__).parents[2]
    rooms = [root / room for room in ("clients", "training", "personalization")]
    files = [path for room in rooms for path in room.rglob("*.py")]
    assert {
        f"{path.relative_to(root)}"
        for path in files
        if re.search(r"(raise|return) public\(", path.read_text())
    } == {
        "clients/federation/job_folder.py",
        "clients/node/request_handler.py",
        "clients/node/outbound_gateway.py",
        "clients/node/guards.py",
        "clients/node/own_data.py",
        "training/data/settings.py",
        "training/engines/roster.py",
        "training/engines/wire.py",
        "training/rounds/requests.py",
        "training/jobs/client_app.py",
        "training/messages.py",
        "training/files.py",
    }


def test_a_hospital_publishes_the_doors_methods_and_nothing_else():
    assert {name for name in dir(Hospital) if is_publish(getattr(Hospital, name))} == set(CALLS)
