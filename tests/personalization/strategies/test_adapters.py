"""The strategy `adapters`, against torch's own parametrisation of weights."""

import torch
from torch import nn
from torch.nn.utils import parametrize

from tests.closeness import assert_close_in_norm
from training.messages import named
from training.models import ModelConfig, build_model

RANK, ALPHA = 2, 3.0
STRATEGY = {"name": "adapters", "epochs": 1, "rank": RANK, "alpha": ALPHA}


class Change(nn.Module):
    """W_0 to W_0 + (α / r) B A."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(a.clone()), nn.Parameter(b.clone())

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + ALPHA / RANK * torch.einsum("or,rc->oc", self.b, self.a).reshape(weight.shape)


def factors(states) -> dict[str, dict[str, torch.Tensor]]:
    """A and B by the layer's name, from a network's state."""
    found: dict[str, dict[str, torch.Tensor]] = {}
    for name, value in named(states, "heads.").items():
        layer, _, which = name.replace("/", ".").rpartition(".")
        found.setdefault(layer, {})[which] = value
    return found


def test_an_epoch_averages_the_factors_that_clients_learn(
    stages, make_job, stand, two_of_light, newest, local_loop
):
    data = two_of_light
    job = make_job(stages(STRATEGY))
    stage = stand(job, data)
    stage.run()
    end = {track: factors(newest(stage, track)) for track in ("light", "dark")}
    # What A was drawn as: at so small a rate nothing moves.
    drawn = stand(make_job(stages(STRATEGY, rate=1e-30)), data, name="drawn")
    drawn.run()
    begun = factors(newest(drawn, "light"))

    def learn(track: str, client: str) -> dict[str, dict[str, torch.Tensor]]:
        changes: dict[str, Change] = {}

        def prepare(model) -> None:
            for name, layer in list(model.named_modules()):
                if isinstance(layer, nn.Linear | nn.Conv2d):
                    a = begun[name]["a"]
                    changes[name] = Change(a, torch.zeros(len(layer.weight), len(a)))
                    parametrize.register_parametrization(layer, "weight", changes[name])

        local_loop(
            job,
            stage.start,
            data.examples(client, "train"),
            track,
            client,
            epochs=1,
            still=True,
            prepare=prepare,
            trained=lambda model: [value for change in changes.values() for value in change.parameters()],
        )
        return {name: {"a": change.a.detach(), "b": change.b.detach()} for name, change in changes.items()}

    north, west, south = learn("light", "north"), learn("light", "west"), learn("dark", "south")
    assert north.keys() == end["light"].keys()
    for name, of in north.items():
        for which, value in of.items():
            mean = (14 * value + 7 * west[name][which]) / 21
            assert_close_in_norm(end["light"][name][which], mean, of=name)
            assert_close_in_norm(end["dark"][name][which], south[name][which], of=name)


def test_what_is_judged_and_kept_is_the_plain_model_with_the_change_added(
    stages, make_job, stand, hospitals, newest, answers
):
    job = make_job(stages(STRATEGY, rate=0.3))
    stage = stand(job, hospitals)
    outcome = stage.run()
    for track, client in (("light", "north"), ("dark", "south")):
        expected = dict(stage.start)
        for layer, of in factors(newest(stage, track)).items():
            weight = expected[f"{layer}.weight"]
            product = of["b"].double().numpy() @ of["a"].double().numpy()
            expected[f"{layer}.weight"] = (
                weight.double() + ALPHA / RANK * torch.from_numpy(product).reshape(weight.shape)
            ).float()
        validation = hospitals.examples(client, "validation")
        right = (answers(job, expected, validation) == validation.labels).mean()
        assert outcome.facts["validation_accuracies"][track][1] == right
        if outcome.facts["by_subgroup"][track]["epoch"] == 1:
            assert_close_in_norm({name: outcome.models[track][name] for name in expected}, expected, 1e-6)


def test_a_follows_from_the_seed_and_b_begins_at_zero(stages, make_job):
    strategy = make_job(stages({"name": "adapters", "epochs": 1})).stages[0].strategy
    model = build_model(ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32]}), 3, seed=1)
    first, again, other = (factors(strategy.network(model, seed).state_dict()) for seed in (3, 3, 4))
    for name, of in first.items():
        assert of["b"].eq(0).all()
        assert of["a"].equal(again[name]["a"])
        assert not of["a"].equal(other[name]["a"])
