import errno

import pytest
import torch

from training.errors import CheckpointError
from training.messages import tensor_file
from training.rounds.server.checkpoint import Checkpoint, Checkpoints


def checkpoint(round_):
    return Checkpoint(
        round_, 100 * round_, {"server": {"m": round_}}, {"weight": torch.full((3,), round_ / 4)}
    )


def test_the_newest_comes_back_and_only_two_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, "job")
    assert checkpoints.newest() is None
    for round_ in (8, 9, 10, 11):
        checkpoints.save(checkpoint(round_))
        newest = checkpoints.newest()
        assert (newest.round, newest.log_bytes) == (round_, 100 * round_)
        assert newest.facts == {"server": {"m": round_}}
        assert newest.tensors["weight"].tolist() == [round_ / 4] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "round-000010.safetensors",
        "round-000011.safetensors",
    ]


def test_a_full_disk_leaves_the_older_checkpoint_to_go_on_from(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, "job")
    checkpoints.save(checkpoint(1))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tensor_file, "save_tensors", full)
    with pytest.raises(CheckpointError, match=r"round-000002.*No space left.*continue with --resume"):
        checkpoints.save(checkpoint(2))
    assert checkpoints.newest().round == 1
    monkeypatch.undo()
    checkpoints.save(checkpoint(2))
    assert checkpoints.newest().round == 2


def test_the_half_file_of_a_killed_process_is_not_taken_for_a_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path, "job")
    checkpoints.save(checkpoint(1))
    (tmp_path / ".round-000002.safetensors.123.partial").write_bytes(b"half")
    assert checkpoints.newest().round == 1


def test_a_damaged_checkpoint_is_said_and_can_be_removed_to_go_on(tmp_path):
    checkpoints = Checkpoints(tmp_path, "job")
    checkpoints.save(checkpoint(1))
    checkpoints.save(checkpoint(2))
    newest = tmp_path / "round-000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match=r"round-000002.* cannot be read .*remove it to go on"):
        checkpoints.newest()
    newest.unlink()
    assert checkpoints.newest().round == 1


def test_the_checkpoints_of_another_job_are_refused(tmp_path):
    Checkpoints(tmp_path, "job").save(checkpoint(1))
    with pytest.raises(CheckpointError, match="belongs to job job, not to another"):
        Checkpoints(tmp_path, "another").newest()
