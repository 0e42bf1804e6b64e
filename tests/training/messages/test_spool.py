import errno

import pytest
import torch
from safetensors import SafetensorError

from training import tensor_file as module
from training.errors import CheckpointError, may_pass, public_message
from training.messages import Update
from training.tensor_file import Spool, map_tensors

TENSORS = {"b": torch.tensor([1.5, -2.0]), "a": torch.arange(6.0).view(2, 3).T}


def test_what_was_spooled_comes_back_bytewise(tmp_path):
    spool = Spool(tmp_path / "spool", memory=0)
    update = spool.stored(Update("north", "0-federate", 1, "fit", tensors=TENSORS, losses={"light": 1.0}))
    assert update.losses == {"light": 1.0}
    assert set(update.tensors) == {"a", "b"}
    assert len(update.tensors) == 2
    assert all(torch.equal(update.tensors[name], value) for name, value in TENSORS.items())
    with pytest.raises(KeyError, match="c"):
        update.tensors["c"]


def test_all_tensors_are_read_at_once(tmp_path, monkeypatch):
    tensors = (
        Spool(tmp_path / "spool", memory=0).stored(Update("north", "s", 1, "fit", tensors=TENSORS)).tensors
    )
    reads = []

    def counted(path):
        reads.append(path)
        return map_tensors(path)

    monkeypatch.setattr(module, "map_tensors", counted)
    assert all(torch.equal(value, TENSORS[name]) for name, value in tensors.items())
    assert sorted(value.sum().item() for value in tensors.values()) == [-0.5, 15.0]
    assert len(reads) == 2


def test_tensors_that_share_memory_are_spooled_whole(tmp_path):
    shared = torch.arange(4.0)
    spool = Spool(tmp_path / "spool", memory=0)
    back = spool.stored(Update("north", "s", 1, "fit", tensors={"x": shared, "y": shared})).tensors
    assert torch.equal(back["x"], shared)
    assert torch.equal(back["y"], shared)


def test_a_spool_starts_empty_and_forgets_all_when_cleared(tmp_path):
    folder = tmp_path / "spool"
    Spool(folder).write(TENSORS)
    spool = Spool(folder)
    assert not list(folder.iterdir())
    first, second = spool.write(TENSORS), spool.write(TENSORS)
    assert first != second
    Spool(folder / "worker-1").write(TENSORS)
    spool.clear()
    assert not list(folder.rglob("*.safetensors"))
    assert spool.write(TENSORS) not in (first, second)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_said_and_passes(tmp_path, monkeypatch, error):
    def full(*_):
        raise error

    spool = Spool(tmp_path / "spool", memory=0)
    monkeypatch.setattr(module, "save_tensors", full)
    with pytest.raises(CheckpointError, match=r"cannot spool 32 bytes .*No space left.*--resume") as failed:
        spool.write(TENSORS)
    assert may_pass(public_message(failed.value))


def test_what_memory_has_no_room_for_waits_on_disk_and_a_cleared_spool_has_room_again(tmp_path):
    spool = Spool(tmp_path / "spool", memory=2 * 32 + 1)
    update = Update("north", "s", 1, "fit", tensors=TENSORS)
    there = Spool(tmp_path / "there", memory=0).stored(update)
    for _ in range(2):
        assert spool.stored(there) is there  # of no weight: it is on disk
        assert [spool.stored(update) is update for _ in range(3)] == [True, True, False]
        spool.clear()
