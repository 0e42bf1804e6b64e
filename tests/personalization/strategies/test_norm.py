"""The strategy `norm`, against SGD over the normalisation layers alone."""

import pytest
from torch import nn

from training.errors import JobError


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


def test_statistics_move_unless_the_job_says_otherwise(stages, make_job):
    assert make_job(stages({"name": "norm", "epochs": 1})).stages[0].strategy.statistics


class Plain(nn.Module):
    """A model of one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(2, 2)


class Unscaled(nn.Module):
    """A model whose normalisation has nothing to learn."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False))


def test_a_model_whose_normalisation_learns_nothing_is_refused(stages, make_job):
    strategy = make_job(stages({"name": "norm", "epochs": 1})).stages[0].strategy
    with pytest.raises(JobError, match="strategy norm has nothing to train"):
        strategy.moves(Unscaled())


def test_a_model_without_normalisation_is_refused(stages, make_job):
    strategy = make_job(stages({"name": "norm", "epochs": 1})).stages[0].strategy
    with pytest.raises(JobError, match="the model has no `norm`"):
        strategy.moves(Plain())
