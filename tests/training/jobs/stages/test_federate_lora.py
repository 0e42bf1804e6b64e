"""`trainable: lora`: adapters and head learn and travel, and what the stage leaves is a plain model."""

import pytest
import torch

from registry.bundle.cases import AGE, CaseInput
from tests.training.jobs.stages.test_federate_cases import CASES, OfCases
from training.algorithms.local_model import OptimizerConfig, build_optimizer
from training.algorithms.trainable import TrainableLora
from training.models import ModelConfig, initial_model
from training.models.classifier import float_state
from training.models.lora import merge_adapters

RANK = 2
LORA = {"rounds": 2, "trainable": {"name": "lora", "rank": RANK}, "evaluate_on": "validation"}


@pytest.fixture
def weights(encoder_file):
    return encoder_file


def start_of(job):
    return float_state(initial_model(job.model, job.seed, 16, 2, job.data.case))


def assert_learned(before, after, head):
    """Head anew, weights of layers by matrices of low rank, and nothing else."""
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name for name in changed if name.startswith(head)}
    adapted = {name for name in changed if not name.startswith(head)}
    assert adapted  # of random weights, branches that end in a scale of nought cannot learn
    for name in adapted:
        change = (after[name] - before[name]).flatten(1)
        assert name.endswith("weight")
        assert change.ndim == 2
        sizes = torch.linalg.svdvals(change.double())
        assert (sizes[RANK:] < 1e-3 * sizes[0]).all(), name


def test_weights_move_by_low_rank_and_nothing_else_does(make_job, run_job, weights):
    job = make_job(federate=LORA, model={"weights": weights})
    assert_learned(start_of(job), run_job(job).weights(), "encoder.fc")


def test_only_adapters_and_head_travel_once_a_client_has_the_rest(make_job, run_job, weights):
    ran = run_job(make_job(federate={**LORA, "evaluate_on": None}, model={"weights": weights}))
    network = TrainableLora(rank=RANK).network(ran.result.context.model)
    state = float_state(network)
    part = 4 * sum(state[name].numel() for name in TrainableLora(rank=RANK).moves(network))
    whole = 4 * sum(tensor.numel() for tensor in state.values())
    assert part < whole / 3
    first, second = ran.lines
    assert first["bytes_up"] == second["bytes_up"] == 3 * part
    assert first["bytes_down"] - second["bytes_down"] == 3 * (whole - part)


def test_rounds_are_judged_with_their_adapters(make_job, run_job, dataset, weights):
    """The last round's figures are those of the model that the stage leaves, adapters added in."""
    block = {**LORA, "rounds": 2, "objective": {"optimizer": {"name": "adam", "lr": 0.01}}}
    job = make_job(federate=block, model={"weights": weights}, privacy={"min_count": 1})
    ran = run_job(job, dataset)
    last = ran.lines[-1]["metrics"]
    state = ran.weights()
    head = {
        name: state[name] if name.startswith("encoder.fc") else tensor
        for name, tensor in start_of(job).items()
    }
    model = ran.result.context.model
    right, without, shown = 0, 0, 0
    for client in ran.result.context.census.counts:
        examples = dataset.examples(client, "validation")
        pictures = torch.from_numpy(examples.batch(slice(None))).permute(0, 3, 1, 2).float() / 255
        for weights_, count in ((state, "right"), (head, "without")):
            model.load_state_dict({**model.state_dict(), **weights_})
            with torch.no_grad():
                found = int((model.eval()(pictures).argmax(1).numpy() == examples.labels).sum())
            right, without = (right + found, without) if count == "right" else (right, without + found)
        shown += len(examples)
    assert last["accuracy"] == pytest.approx(right / shown)
    assert without != right, "adapters change no answer: it would not show"


@pytest.mark.parametrize("keep", ["best", "average"])
def test_other_rounds_can_be_kept(make_job, run_job, weights, keep):
    job = make_job(federate={**LORA, "keep": keep}, model={"weights": weights})
    assert run_job(job).weights().keys() == start_of(job).keys()


def test_of_a_model_of_cases_fusion_and_head_learn_too(make_job, run_job, dataset, weights):
    model = {"weights": weights, "name": "resnet18"}
    job = make_job(federate=LORA, model=model, data={"unit": "lesion", "cases": CASES})
    assert_learned(start_of(job), run_job(job, OfCases(dataset)).weights(), ("fusion", "head"))


@pytest.mark.parametrize("case", [None, CaseInput(slots=2, kinds=("close-up",), facts=(AGE,))])
def test_it_begins_as_the_model_and_ends_as_its_merged_form(case):
    config = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]})
    model, trainable = initial_model(config, 0, 16, 3, case).eval(), TrainableLora(rank=RANK, alpha=3)
    network = trainable.network(model)
    pictures = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name in model.head_names:  # a head of zeros answers the same whatever it is shown
            model.state_dict()[name].normal_(generator=torch.Generator().manual_seed(1))
        before = model(pictures)
        assert torch.equal(trainable.view(network).eval()(pictures), before)
        for name, tensor in network.state_dict().items():
            if name.endswith(".b"):
                tensor.normal_(std=0.3, generator=torch.Generator().manual_seed(2))
        adapted = trainable.view(network).eval()(pictures)
        assert not torch.allclose(adapted, before, atol=1e-2)
        own = [name for name in network.state_dict() if name.startswith("heads.")]
        assert all(name.startswith("heads.encoder/") and "/fc." not in name for name in own)
        plain = merge_adapters(float_state(network), trainable.scale)
        model.load_state_dict({**model.state_dict(), **plain})
        torch.testing.assert_close(model(pictures), adapted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_an_adapter_learns_at_the_rate_of_the_weight_that_it_changes(decay):
    config = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]})
    network = TrainableLora(rank=RANK).network(initial_model(config, 0, 16, 3, None))
    optimizer = build_optimizer(OptimizerConfig(encoder_rate=0.1, layer_decay=decay), network)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    rates = {names[id(p)]: group["lr_scale"] for group in optimizer.param_groups for p in group["params"]}
    factors = [name for name in rates if name.startswith("heads.encoder/")]
    assert len(factors) == 2 * 21  # the stem, two in each of eight blocks, and one beside each of four stages
    for name in factors:
        weight = name[len("heads.") : -2].replace("/", ".") + ".weight"
        assert rates[name] == rates[weight] <= 0.1
    assert rates["encoder.fc.weight"] == rates["encoder.fc.bias"] == 1
    assert len({rates[name] for name in factors}) == (1 if decay == 1 else 9)
