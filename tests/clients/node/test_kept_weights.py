"""Weights that are named and not sent: a node trains on what was meant, or says that it has it no longer."""

import json

import pytest
import torch

from clients.node import kept_weights as module
from clients.node.chunk_receiver import ChunkReceiver
from clients.node.kept_weights import FILE, KeptWeights, LostWeightsError
from training.engines.nvflare import held_weights
from training.engines.nvflare.chunking import ChunkAddress
from training.engines.nvflare.payload import read_payload, write_payload
from training.errors import MessageError
from training.messages import spool
from training.messages.tensor_digest import tensor_digests
from training.messages.tensor_file import map_tensors, save_tensors

WEIGHTS = {"a": torch.arange(12.0).reshape(3, 4), "b": torch.tensor(7), "half": torch.ones(5).bfloat16()}
DIGESTS = tensor_digests(WEIGHTS)


@pytest.fixture(autouse=True)
def small_is_worth_it(monkeypatch):
    monkeypatch.setattr(held_weights, "LEAST", 1)


@pytest.fixture
def kept(tmp_path):
    return KeptWeights(tmp_path / "run-1")


def same(payload, tensors):
    found = dict(read_payload(payload).items())
    return found.keys() == tensors.keys() and all(
        found[n].dtype == t.dtype and torch.equal(found[n], t) for n, t in tensors.items()
    )


@pytest.mark.parametrize("as_file", [False, True])
def test_what_was_sent_once_is_named_and_whole(kept, tmp_path, as_file):
    payload = write_payload(WEIGHTS)
    if as_file:
        payload = tmp_path / "arriving.safetensors"
        save_tensors(WEIGHTS, payload)
    assert kept.whole({}, payload) is payload
    if as_file:
        payload.unlink()  # as its place is taken by the next question
    assert same(kept.whole(DIGESTS, b""), WEIGHTS)
    other = {"a": WEIGHTS["a"] + 1}
    named = {name: digest for name, digest in DIGESTS.items() if name != "a"}
    assert same(kept.whole(named, write_payload(other)), {**WEIGHTS, **other})
    assert same(kept.whole(tensor_digests({**WEIGHTS, **other}), b""), {**WEIGHTS, **other}), "the newest"
    with pytest.raises(LostWeightsError):
        kept.whole(DIGESTS, b"")
    assert len(list((tmp_path / "run-1").iterdir())) == 1, "one model, whatever was asked"


def test_a_file_that_arrived_is_mapped_a_few_times_however_many_tensors_are_in_it(
    kept, tmp_path, monkeypatch
):
    """Once for each tensor it was, and a process of 11 MiB of weights was told to have 200 more."""
    kept.whole({}, write_payload(WEIGHTS))
    arriving = tmp_path / "arriving.safetensors"
    save_tensors({f"{number}": torch.zeros(2) for number in range(40)}, arriving)
    mapped = []
    monkeypatch.setattr(spool, "map_tensors", lambda path: mapped.append(path) or map_tensors(path))
    assert len(read_payload(kept.whole(DIGESTS, arriving))) == 43
    assert len(mapped) < 4


def test_numbers_that_are_equal_and_not_the_same_have_other_digests_and_the_same_ones_have_one():
    """Zero and minus zero, and whatever is no number, by their bytes."""
    payload = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    odd = [torch.zeros(1), -torch.zeros(1), torch.tensor([float("nan")]), payload]
    assert len({*tensor_digests(dict(enumerate(odd))).values()}) == len(odd)
    assert tensor_digests({"a": payload}) == tensor_digests({"a": payload.clone()})


def test_a_digest_tells_type_and_shape_too():
    twins = [torch.zeros(4), torch.zeros(2, 2), torch.zeros(4, dtype=torch.int32)]
    assert len({*map(str, tensor_digests(dict(enumerate(twins))).values())}) == 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-3]),
        lambda file: file.write_bytes(file.read_bytes()[:-3] + b"xyz"),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"\xff" * 100),
        lambda file: file.unlink(),
        lambda file: save_tensors({"a": WEIGHTS["a"]}, file),
    ],
    ids=["cut off", "changed", "empty", "nonsense", "pruned", "without one"],
)
def test_what_was_spoilt_is_lost(kept, tmp_path, spoil):
    kept.whole({}, write_payload(WEIGHTS))
    assert same(kept.whole(DIGESTS, b""), WEIGHTS), "the control"
    spoil(tmp_path / "run-1" / FILE)
    with pytest.raises(LostWeightsError):
        kept.whole(DIGESTS, b"")
    kept.whole({}, write_payload(WEIGHTS))
    assert same(kept.whole(DIGESTS, b""), WEIGHTS), "sent whole, it is there again"


def test_weights_of_another_run_cannot_be_named(kept, tmp_path):
    kept.whole({}, write_payload(WEIGHTS))
    other = KeptWeights(tmp_path / "run-2")
    with pytest.raises(LostWeightsError):
        other.whole(DIGESTS, b"")
    assert same(kept.whole(DIGESTS, b""), WEIGHTS), "the control: the run that was sent them can"
    with pytest.raises(LostWeightsError):
        KeptWeights(tmp_path / "run-1").whole(DIGESTS, b"")  # nor by a later process of the same run


def test_a_digest_under_another_name_is_not_found(kept):
    kept.whole({}, write_payload(WEIGHTS))
    for named in ({"b": DIGESTS["a"]}, {"../run-1/a": DIGESTS["a"]}, {"a": DIGESTS["a"].upper()}, {"a": ""}):
        with pytest.raises(LostWeightsError):
            kept.whole(named, b"")


def test_what_came_and_was_named_is_refused(kept):
    kept.whole({}, write_payload(WEIGHTS))
    with pytest.raises(MessageError, match="a came, and was named as well"):
        kept.whole(DIGESTS, write_payload({"a": WEIGHTS["a"] + 1}))


def test_a_full_disk_costs_the_saving_alone(kept, monkeypatch):
    kept.whole({}, write_payload(WEIGHTS))

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(module, "save_tensors", full)
    named = {"b": DIGESTS["b"], "half": DIGESTS["half"]}
    assert same(kept.whole(named, write_payload({"a": WEIGHTS["a"]})), WEIGHTS)
    assert not kept.there


def test_little_is_not_kept_and_takes_nothings_place(kept, monkeypatch):
    kept.whole({}, write_payload(WEIGHTS))
    monkeypatch.setattr(held_weights, "LEAST", 1 << 20)
    kept.whole({}, write_payload({"share": torch.zeros(3)}))
    assert same(kept.whole(DIGESTS, b""), WEIGHTS)


class Scripted:
    """A request handler that has lost what is named, and takes what is sent."""

    session = "s1"

    def __init__(self):
        self.bodies = []

    def answer(self, header, body):
        self.bodies.append(body if isinstance(body, bytes) else body.read_bytes())
        return "head", b""


def test_a_question_that_comes_again_whole_is_not_mixed_with_its_first_pieces(tmp_path):
    handler = Scripted()
    receiver = ChunkReceiver(handler, tmp_path, 4)
    address = {"job": "j", "client": "north", "stage": "0", "round": 1, "ask": "fit", "kept": 0}
    header = json.dumps({**address, "session": "s1", "number": 1})
    for whole in (b"abcdef", b"ABCDEFGHIJ"):
        there = 0
        while there < len(whole):
            place = ChunkAddress(session="s1", number=1, offset=there, size=len(whole))
            held = receiver.put(place.model_dump_json(), whole[there : there + 4])
            assert there < held <= len(whole)
            there = held
        receiver.answer(header, b"", len(whole))
    assert handler.bodies == [b"abcdef", b"ABCDEFGHIJ"]
