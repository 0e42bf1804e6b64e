import pytest

from training.errors import CheckpointError
from training.jobs.run_folder import RunFolder


@pytest.fixture
def begun(tmp_path, make_job):
    """A run's folder with these files under `checkpoints/0-federate`."""

    def build(*left):
        folder = RunFolder(tmp_path / "run")
        folder.claim(make_job(), resume=False)
        for name in left:
            path = folder.checkpoints / "0-federate" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return folder

    return build


def test_what_a_round_left_that_was_never_complete_is_nothing_to_lose(begun, make_job):
    folder = begun("uploads/north/round-000001.safetensors", "best.safetensors")
    folder.claim(make_job(seed=3), resume=False)
    assert not folder.checkpoints.exists()
    assert "seed: 3" in folder.job_file.read_text()


@pytest.mark.parametrize("left", ["round-000001.safetensors", "outcome.safetensors"])
def test_a_round_or_a_stage_that_is_complete_is_kept(begun, make_job, left):
    folder = begun(left)
    with pytest.raises(CheckpointError, match="holds a run already; continue it with --resume"):
        folder.claim(make_job(), resume=False)
    with pytest.raises(CheckpointError, match=r"holds a run of another job: .*seed.* differ"):
        folder.claim(make_job(seed=3), resume=True)
    folder.claim(make_job(), resume=True)
    assert folder.checkpoints.exists()
