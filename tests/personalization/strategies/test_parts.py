"""Strategies that train: what moves, what travels, and that a kill changes nothing.

The strategy `head`, against a linear layer trained on features that are computed once.

The strategy `norm`, against SGD over the normalisation layers alone.

The strategy `none`: the global model for everybody.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn

from tests.closeness import assert_close_in_norm
from tests.thorough import mostly_long
from training.errors import JobError
from training.messages import GLOBAL, tensor_bytes
from training.models import build_model
from training.randomness import generator

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
    mostly_long(
        [("head", "subgroup"), ("adapters", "subgroup"), ("ditto", "subgroup"), ("adapters", "client")],
        ("adapters", "subgroup"),
    ),
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


KEY, EPOCHS, BATCH, RATE, MOMENTUM = "0-personalize", 2, 6, 0.02, 0.9


def test_it_is_a_linear_layer_on_fixed_features(stages, make_job, stand, hospitals, newest):
    job = make_job(stages({"name": "head", "epochs": EPOCHS}))
    stage = stand(job, hospitals)
    stage.run()
    for track, client in (("light", "north"), ("dark", "south")):
        examples = hospitals.examples(client, "train")
        model = build_model(job.model, 3, seed=1).eval()
        model.load_state_dict(stage.start, strict=False)
        images = torch.from_numpy(examples.images.astype(np.float32) / 255).permute(0, 3, 1, 2)
        with torch.no_grad():
            features = model.embed(images)
        labels = torch.from_numpy(examples.labels)
        weight = stage.start["encoder.fc.weight"].clone().requires_grad_()
        bias = stage.start["encoder.fc.bias"].clone().requires_grad_()
        for epoch in range(1, EPOCHS + 1):
            optimizer = torch.optim.SGD([weight, bias], RATE, MOMENTUM)
            order = generator(job.seed, KEY, track, epoch, client, "order 0").permutation(len(labels))
            cuts = [cut for cut in range(BATCH, len(order), BATCH) if len(order) - cut > 1]
            for batch in np.split(order, cuts):
                optimizer.zero_grad()
                F.cross_entropy(features[batch] @ weight.T + bias, labels[batch]).backward()
                optimizer.step()
        end = newest(stage, track)
        assert_close_in_norm(end["encoder.fc.weight"], weight)
        assert_close_in_norm(end["encoder.fc.bias"], bias)


def test_statistics_stand_still_whatever_mode_the_objective_asks_for(
    stages, make_job, stand, hospitals, newest, changed
):
    """FixMatch looks at pictures in evaluation mode and then turns training mode on again."""
    data = hospitals.with_labels(
        "train", lambda labels: np.where(np.arange(len(labels)) % 3 == 0, -1, labels)
    )
    objective = {
        "name": "fixmatch",
        "batch_size": 6,
        "threshold": 0.0,
        "optimizer": {"name": "sgd", "lr": 0.02},
    }
    job = make_job(stages({"name": "head", "epochs": 1, "objective": objective}))
    stage = stand(job, data)
    stage.run()
    assert changed(stage.start, newest(stage, "light")) == {"encoder.fc.weight", "encoder.fc.bias"}


def affine(model) -> list[nn.Parameter]:
    layers = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    return [parameter for layer in layers for parameter in (layer.weight, layer.bias)]


@pytest.mark.parametrize("statistics", [True, False])
def test_it_is_sgd_over_the_normalisation_layers(
    statistics, stages, make_job, stand, hospitals, newest, local_loop, assert_close
):
    job = make_job(stages({"name": "norm", "epochs": 2, "statistics": statistics}))
    stage = stand(job, hospitals)
    stage.run()
    for track, client in (("light", "north"), ("dark", "south")):
        examples = hospitals.examples(client, "train")
        states = local_loop(
            job, stage.start, examples, track, client, epochs=2, trained=affine, still=not statistics
        )
        assert_close(newest(stage, track), states[-1])


class Encoding(nn.Module):
    """A model of an encoder alone."""

    def __init__(self, encoder) -> None:
        super().__init__()
        self.encoder = encoder


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)), "norm has nothing to train"),
        (nn.Linear(2, 2), "the model has no `norm`"),
    ],
)
def test_a_model_whose_normalisation_learns_nothing_is_refused(encoder, message, stages, make_job):
    strategy = make_job(stages({"name": "norm", "epochs": 1})).stages[0].strategy
    assert strategy.statistics, "unless the job says otherwise"
    with pytest.raises(JobError, match=message):
        strategy.moves(Encoding(encoder))


def test_every_subgroup_has_the_global_models_bytes_and_nobody_trains(stages, make_job, stand, hospitals):
    stage = stand(make_job(stages({"name": "none"})), hospitals)
    outcome = stage.run()
    assert list(outcome.models) == [GLOBAL, "light", "dark"]
    for weights in outcome.models.values():
        assert all(
            value.numpy().tobytes() == stage.start[name].numpy().tobytes() for name, value in weights.items()
        )
    assert outcome.rounds == 0
    assert stage.context.metrics_log.lines() == []
    assert outcome.facts["by_subgroup"] == {"light": {"epoch": 0}, "dark": {"epoch": 0}}
    assert [list(of) for of in outcome.facts["validation_accuracies"].values()] == [[0], [0]]


def test_per_client_every_hospital_keeps_the_global_model(stages, make_job, stand, hospitals):
    job = make_job(stages({"name": "none"}, per="client"))
    outcome = stand(job, hospitals).run()
    assert outcome.facts["epochs"] == {"north": 0, "south": 0}
    plain = stand(make_job(stages({"name": "none"})), hospitals, name="per subgroup").run()
    found, expected = (
        [of[name].point.confusion.tolist() for name in ("light", "dark")] for of in (outcome.test, plain.test)
    )
    assert found == expected


@pytest.mark.parametrize("wrong", [{"epochs": 1}, {"objective": {"name": "supervised"}}])
def test_there_is_nothing_to_set(wrong, stages, make_job):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        make_job(stages({"name": "none", **wrong}))
