"""Checkpoints, the mean of all rounds' models, and the best round's."""

import errno

import numpy as np
import pytest
import torch

from registry.bundle.counting import count
from training import tensor_file
from training.errors import CheckpointError, JobError
from training.rounds.server.checkpoint import BestRound, Checkpoint, Checkpoints, MeanModel
from training.rounds.server.plan import TrackState


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


MODELS = [np.array([1.0, -3.0]), np.array([0.5, 7.0]), np.array([-2.0, 0.25]), np.array([4.0, 1.0])]


def states(value, count=0):
    weights = {"weight": torch.tensor(value, dtype=torch.float32), "batches": torch.tensor(count)}
    return {"global": TrackState(weights, {})}


def after_round(mean, round_, value=None):
    mean.after_round(round_, states(MODELS[round_ - 1] if value is None else value, round_), {})


def weights_after(mean, rounds):
    return mean.weights(rounds, last=states(MODELS[rounds - 1], rounds)["global"].weights)


@pytest.fixture
def mean(tmp_path):
    return MeanModel(tmp_path, "job")


def test_it_is_the_mean_over_all_rounds_and_whole_numbers_are_the_last_rounds(mean):
    for round_ in range(1, 5):
        after_round(mean, round_)
    found = weights_after(mean, 4)
    np.testing.assert_allclose(found["weight"], np.mean(MODELS, axis=0), rtol=1e-7)
    assert found["weight"].dtype == torch.float32
    assert found["batches"].item() == 4
    assert found["batches"].dtype == torch.int64


def test_it_is_exact_where_single_precision_would_lose_small_parts(mean):
    for round_, value in enumerate((2.0**25, 1.0, 1.0, -(2.0**25)), start=1):
        mean.after_round(round_, states([value]), {})
    assert mean.weights(4, last=states([0.0])["global"].weights)["weight"].item() == 0.5


@pytest.mark.parametrize("again", [[4], [3, 4], [4, 4], [3, 3, 4]])
def test_rounds_that_are_done_again_count_once(mean, tmp_path, again):
    for round_ in (1, 2, 3, 4):
        after_round(mean, round_)
    undisturbed = weights_after(mean, 4)
    resumed = MeanModel(tmp_path, "job")
    for round_ in again:
        after_round(resumed, round_)
    assert torch.equal(weights_after(resumed, 4)["weight"], undisturbed["weight"])


def test_what_a_round_gave_before_it_was_done_again_with_other_clients_is_forgotten(mean):
    after_round(mean, 1)
    after_round(mean, 2, np.array([100.0, 100.0]))
    after_round(mean, 2)
    np.testing.assert_allclose(weights_after(mean, 2)["weight"], np.mean(MODELS[:2], axis=0))


def test_a_sum_that_is_gone_is_told(mean, tmp_path):
    after_round(mean, 1)
    mean.forget()
    assert not list(tmp_path.iterdir())
    mean.forget()
    with pytest.raises(CheckpointError, match=r"sum-000001.* is gone, .* start the run anew"):
        after_round(mean, 2)


def one_weight(value):
    return {"global": TrackState({"weight": torch.tensor([float(value)])}, {})}


def blocks(right, wrong=0):
    """Counts in two subgroups of answers that are certain."""
    labels = np.zeros(right + wrong, dtype=np.int64)
    answers = np.eye(2)[[0] * right + [1] * wrong]
    half = slice(0, (right + wrong) // 2), slice((right + wrong) // 2, None)
    malignant = np.array([False, True])
    return {
        name: count(answers[part], labels[part], malignant=malignant)
        for name, part in zip(("light", "dark"), half, strict=True)
    }


@pytest.fixture
def best(tmp_path):
    return BestRound(tmp_path, "job")


def test_the_first_of_the_most_accurate_rounds_is_kept(best, tmp_path):
    for round_, right in enumerate((4, 8, 6, 8, 7), start=1):
        best.after_round(round_, one_weight(round_), blocks(right, 10 - right))
    assert best.round == 2
    assert best.weights()["weight"].tolist() == [2]
    assert BestRound(tmp_path, "job").round == 2
    best.forget()
    best.forget()
    assert not list(tmp_path.iterdir())


def test_what_later_rounds_left_before_a_kill_gives_way(best):
    best.after_round(5, one_weight(5), blocks(9, 1))
    best.after_round(4, one_weight(4), blocks(3, 7))
    assert best.round == 4


def test_nothing_counted_is_nothing_to_go_by(best):
    best.after_round(1, one_weight(1), {})
    with pytest.raises(JobError, match="in no round did any client judge the model"):
        best.weights()
    best.after_round(2, one_weight(2), blocks(3, 7))
    best.after_round(3, one_weight(3), {})
    assert best.round == 2
