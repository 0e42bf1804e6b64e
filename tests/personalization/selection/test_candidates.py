import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalization.selection import SelectionConfig, select
from personalization.stages.personal_models import Candidates, candidate_files
from training.errors import CheckpointError

JOB = "sha256:job"


def weights(value: float) -> dict[str, torch.Tensor]:
    return {"layer": torch.full((2, 3), value)}


def filled(folder, accuracies: dict[str, list[float]]) -> Candidates:
    """Epochs 0, 1, ... of each subgroup; an epoch's weights are its number."""
    kept = Candidates(folder, JOB)
    for epoch in range(len(next(iter(accuracies.values())))):
        kept.keep(
            epoch,
            {name: (values[epoch], 20) for name, values in accuracies.items()},
            {name: weights(epoch) for name in accuracies},
        )
    return kept


def test_weights_of_the_first_epoch_of_each_accuracy_are_kept(tmp_path):
    kept = filled(tmp_path, {"light": [0.5, 0.75, 0.5, 0.75, 0.25], "dark": [0.25, 0.25, 0.25, 1.0, 1.0]})
    assert kept.accuracies["light"] == {0: 0.5, 1: 0.75, 2: 0.5, 3: 0.75, 4: 0.25}
    assert [path.name for path in candidate_files(tmp_path)] == [
        "candidate-0-000001.safetensors",  # light: 0.75; 0.5 is epoch 0's, the global model
        "candidate-0-000004.safetensors",  # light: 0.25
        "candidate-1-000003.safetensors",  # dark: 1.0
    ]
    assert kept.weights("light", 4)["layer"].eq(4).all()
    assert kept.weights("dark", 3)["layer"].eq(3).all()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6),
    band=st.sampled_from([0.0, 0.05, 0.25, 1.0]),
    rule=st.sampled_from(["floor", "paper"]),
)
def test_whatever_is_selected_was_kept(tmp_path_factory, rounds, band, rule):
    folder = tmp_path_factory.mktemp("candidates")
    kept = filled(folder, {"light": [n / 4 for n, _ in rounds], "dark": [n / 4 for _, n in rounds]})
    for name, epoch in select(kept.accuracies, SelectionConfig(band=band, rule=rule)).epochs.items():
        if epoch > 0:
            assert kept.weights(name, epoch)["layer"].eq(epoch).all()


def test_a_resumed_run_finds_what_was_kept_and_may_keep_it_again(tmp_path):
    filled(tmp_path, {"light": [0.5, 0.75, 0.75], "dark": [0.5, 0.25, 0.75]})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    found = Candidates(tmp_path, JOB)
    assert found.accuracies == {"light": {0: 0.5, 1: 0.75, 2: 0.75}, "dark": {0: 0.5, 1: 0.25, 2: 0.75}}
    assert found.pictures == {"light": 20, "dark": 20}
    for epoch, light, dark in ((0, 0.5, 0.5), (1, 0.75, 0.25), (2, 0.75, 0.75)):
        found.keep(
            epoch,
            {"light": (light, 20), "dark": (dark, 20)},
            {"light": weights(epoch), "dark": weights(epoch)},
        )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_candidates_of_another_job_are_refused(tmp_path):
    filled(tmp_path, {"light": [0.5, 0.75]})
    with pytest.raises(CheckpointError, match="belongs to job sha256:job, not to sha256:other"):
        Candidates(tmp_path, "sha256:other").weights("light", 1)


def test_the_index_is_plain(tmp_path):
    filled(tmp_path, {"light": [0.5, 0.75]})
    stored = json.loads((tmp_path / "epochs.json").read_text())
    assert stored == {"accuracies": {"light": {"0": 0.5, "1": 0.75}}, "pictures": {"light": 20}}
