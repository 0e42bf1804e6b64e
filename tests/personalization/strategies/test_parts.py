"""Strategies that train: what moves, what travels, and that a kill changes nothing."""

import pytest
import torch

from training.messages.message import tensor_bytes

HEAD = {"encoder.fc.weight", "encoder.fc.bias"}
TRACKS = {"light": "north", "dark": "south"}
STRATEGIES = {
    "head": {"name": "head", "epochs": 2},
    "norm": {"name": "norm", "epochs": 2},
    "norm without statistics": {"name": "norm", "epochs": 2, "statistics": False},
    "adapters": {"name": "adapters", "epochs": 2, "rank": 1, "alpha": 2.0},
    "ditto": {"name": "ditto", "epochs": 2, "pull": 0.5},
}


def expected_to_move(strategy: str, start, normalisation) -> set[str]:
    """Names of the plain model's tensors that a strategy may change."""
    layers = normalisation(start)
    statistics = {name for name in layers if "running" in name}
    biases = {name for name in layers | HEAD if name.endswith(".bias")}
    return {
        "head": HEAD,
        "norm": layers,
        "norm without statistics": layers - statistics,
        "adapters": set(start) - layers - biases,  # every weight of a convolution or linear layer
        "ditto": set(start),
    }[strategy]


def stirred(start):
    """The model with no value at which a gradient is zero, as initial normalisation weights and heads are."""
    random = torch.Generator().manual_seed(0)
    still = {name for name, value in start.items() if value.ndim > 1 and value.any()}
    return {
        name: value if name in still else value + 0.5 * torch.rand(value.shape, generator=random)
        for name, value in start.items()
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_should_move_does_and_the_rest_stays_bit_for_bit(
    strategy, stages, make_job, stand, hospitals, newest, changed, normalisation
):
    job = make_job(stages(STRATEGIES[strategy], rate=0.05, selection={"band": 1.0, "rule": "paper"}))
    stage = stand(job, hospitals)
    stage.start = stirred(stage.start)
    outcome = stage.run()
    expected = expected_to_move(strategy, stage.start, normalisation)
    assert len(normalisation(stage.start)) == 84, "21 layers of four tensors"
    for track in TRACKS:
        end = job.stages[0].strategy.merged(newest(stage, track))
        assert end.keys() == stage.start.keys()
        assert changed(stage.start, end) == expected
        assert outcome.models[track].keys() == stage.start.keys()
        assert changed(stage.start, outcome.models[track]) <= expected


@pytest.mark.parametrize("strategy", ["head", "norm", "norm without statistics", "adapters"])
def test_only_the_part_travels_once_a_client_has_the_model(
    strategy, stages, make_job, stand, hospitals, normalisation
):
    job = make_job(stages(STRATEGIES[strategy]))
    stage = stand(job, hospitals)
    stage.run()
    first, second = stage.context.metrics_log.lines()
    if strategy == "adapters":
        # Rank 1: a factor of as many values as the weight's matrix has columns, and one of as many as rows.
        shapes = [
            stage.start[n].flatten(1).shape for n in expected_to_move(strategy, stage.start, normalisation)
        ]
        part = 4 * sum(rows + columns for rows, columns in shapes)
        whole = tensor_bytes(stage.start) + part
    else:
        moved = expected_to_move(strategy, stage.start, normalisation)
        part = tensor_bytes({name: stage.start[name] for name in moved})
        whole = tensor_bytes(stage.start)
    assert 5 * part < tensor_bytes(stage.start)
    for client in TRACKS.values():
        assert first["bytes_by_client"][client] == {"down": whole, "beside": 0, "up": part}
        assert second["bytes_by_client"][client] == {"down": part, "beside": 0, "up": part}


@pytest.mark.parametrize(
    ("strategy", "per"),
    [("head", "subgroup"), ("adapters", "subgroup"), ("ditto", "subgroup"), ("adapters", "client")],
)
def test_a_killed_stage_goes_on_to_the_same_models(
    strategy, per, stages, make_job, stand, hospitals, newest, killed
):
    job = make_job(stages(STRATEGIES[strategy], state="keep", per=per))
    whole, cut = stand(job, hospitals, name="whole"), stand(job, hospitals, name="cut")
    expected = whole.run()
    # Per client the round that is lost has been trained already, and clients keep what came of it.
    found = killed(cut, 2 if per == "client" else 1, before=per == "client")
    assert found.facts == expected.facts
    assert found.traffic == expected.traffic
    assert found.models.keys() == expected.models.keys()
    for name, weights in expected.models.items():
        assert all(value.equal(found.models[name][at]) for at, value in weights.items())
    for track in TRACKS if per == "subgroup" else TRACKS.values():
        end = newest(whole, track)
        assert all(value.equal(newest(cut, track)[at]) for at, value in end.items())
    files = {path.name: path.read_bytes() for path in whole.context.folder.glob("personal/*")}
    assert {path.name: path.read_bytes() for path in cut.context.folder.glob("personal/*")} == files
    assert len(files) == (2 if per == "client" else 0)
