"""Which parameters travel, alone and through a run."""

import pytest
import torch

from tests.closeness import assert_close_in_norm
from training.algorithms.sync import SyncAll, SyncExcept
from training.errors import JobError
from training.messages.message import named
from training.models import ModelConfig, build_model
from training.models.groups import float_state, group_names

# A vision transformer as small as timm builds one.
VIT = {
    "name": "vit_tiny_patch16_224",
    "options": {"img_size": 16, "patch_size": 8, "depth": 1, "embed_dim": 12, "num_heads": 2},
}


@pytest.fixture(scope="module")
def resnet():
    return build_model(ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32]}), 2, seed=0)


@pytest.fixture(scope="module")
def vit():
    return build_model(ModelConfig.model_validate(VIT), 2, seed=0)


def test_all_travels_in_the_models_order(resnet):
    travels = SyncAll().travels(resnet)
    assert travels == tuple(
        name for name, value in resnet.state_dict().items() if "num_batches_tracked" not in name
    )


def test_norm_is_every_normalisation_layer_with_its_statistics(resnet, vit):
    stays = SyncExcept(groups=("norm",)).stays(resnet)
    batch_norms = [
        name for name, module in resnet.named_modules() if isinstance(module, torch.nn.BatchNorm2d)
    ]
    parts = ("weight", "bias", "running_mean", "running_var")
    assert stays & float_state(resnet).keys() == {f"{name}.{part}" for name in batch_norms for part in parts}
    assert {name.split(".")[-2] for name in group_names(vit, "norm")} == {"norm", "norm1", "norm2"}


@pytest.mark.parametrize("model", ["resnet", "vit"])
def test_head_is_the_linear_classifier(model, request):
    classifier = request.getfixturevalue(model)
    found = {name.split(".")[-1]: float_state(classifier)[name] for name in group_names(classifier, "head")}
    assert {name: value.shape[0] for name, value in found.items()} == {"weight": 2, "bias": 2}
    assert torch.equal(found["weight"], classifier.encoder.get_classifier().weight)


def test_class_token_and_patch_projection_of_a_transformer(vit):
    assert group_names(vit, "class_token") == {"encoder.cls_token"}
    assert group_names(vit, "patch_projection") == {
        "encoder.patch_embed.proj.weight",
        "encoder.patch_embed.proj.bias",
    }


def test_an_unknown_group_is_refused_with_those_that_exist(resnet):
    with pytest.raises(JobError, match="unknown group of parameters `nrom`; valid: norm, head, class_token"):
        SyncExcept(groups=("nrom",)).travels(resnet)


def test_a_group_that_the_model_does_not_have_is_refused(resnet):
    with pytest.raises(JobError, match="the model has no `class_token` to keep apart"):
        SyncExcept(groups=("class_token",)).travels(resnet)


def test_what_was_kept_wins_over_what_arrives():
    received = {"weight": torch.zeros(2), "token": torch.zeros(1)}
    kept = {"token": torch.ones(1)}
    merged = SyncAll().merge(received, kept, {})
    assert merged["token"] is kept["token"]
    assert merged["weight"] is received["weight"]


TWO = {"north": {"light": (13, 3, 0, 3)}, "south": {"dark": (5, 3, 0, 3)}}


@pytest.fixture
def two_clients(make_dataset):
    """Of 13 and 5 training pictures."""
    return make_dataset(TWO)


@pytest.mark.parametrize(
    ("sync", "model", "stem"),
    [
        ({"name": "except", "groups": ["norm"]}, {}, "encoder.bn1"),
        ({"name": "all", "buffers": "local"}, {}, "encoder.bn1.running_mean"),
        ({"name": "except", "groups": ["class_token"]}, VIT, "encoder.cls_token"),
    ],
)
def test_what_stays_differs_between_clients_and_is_averaged_once_at_the_end(
    make_job, run_job, two_clients, sync, model, stem
):
    # A vit's settings replace the narrow resnet's.
    # At first the head is zero, and so is each block's last normalisation: three steps move all before it.
    job = make_job(federate={"sync": sync, "objective": {"epochs": 3}})
    if model:
        job = job.model_copy(update={"model": ModelConfig.model_validate(model)})
    ran = run_job(job, two_clients)
    kept = {
        client: [
            named(ran.store.load(client, "0-federate/global", round_ + 1).tensors, "weights/")
            for round_ in (1, 2)
        ]
        for client in ("north", "south")
    }
    stays = set(kept["north"][1])
    assert any(name.startswith(stem) for name in stays)
    final = ran.weights()
    for name in stays:
        assert not torch.equal(kept["north"][0][name], kept["south"][0][name])
        # What a client has after the second round comes from what it had itself after the first.
        assert not torch.equal(kept["north"][0][name], kept["north"][1][name])
        expected = (13 * kept["north"][1][name].double() + 5 * kept["south"][1][name].double()) / 18
        assert_close_in_norm(final[name], expected, 1e-6, name)
    assert stays < set(final)


def test_the_first_round_carries_everything_and_the_next_what_travels(make_job, run_job, two_clients):
    block = {"sync": {"name": "except", "groups": ["norm"]}, "rounds": 3, "evaluate_on": None}
    ran = run_job(make_job(federate=block), two_clients)
    state = ran.weights()
    stays = group_names(ran.result.context.model, "norm") & set(state)
    everything = sum(value.numel() * 4 for value in state.values())
    kept = sum(state[name].numel() * 4 for name in stays)
    down = [line["bytes_down"] for line in ran.lines]
    up = [line["bytes_up"] for line in ran.lines]
    assert down == [2 * everything, 2 * (everything - kept), 2 * (everything - kept)]
    # What stayed goes up once, with the last round.
    assert up == [2 * (everything - kept), 2 * (everything - kept), 2 * everything]
