"""Local training: what every objective shares. Epochs of batches, a gradient step each."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor, nn

from training.algorithms.augmentations.batch import scale_down
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives.base import LocalRound, LocalTask, Objective
from training.errors import DataError
from training.messages.message import Tensors
from training.seeds import derive_seed

FEWEST_IN_BATCH = 2  # pictures, without which no batch has a variance


@dataclass(frozen=True)
class LocalResult:
    """The result of one client's round beside the weights, which are left in the local model.

    Attributes:
        num_examples, losses: N_{c,s} and L_{c,s} by subgroup.
        outgoing: what the exchange carries back.
        kept: what the objective keeps at the client.
        optimizer: the optimizer's state, when the job keeps it.
        scalars: what is logged beside.
    """

    num_examples: Mapping[str, int]
    losses: Mapping[str, float]
    outgoing: Tensors
    kept: Tensors
    optimizer: Tensors
    scalars: Mapping[str, float]


def train_locally(
    local_model: LocalModel, objective: Objective, work: LocalRound, optimizer_state: Tensors
) -> LocalResult:
    """One client's round on the local model, which holds the state the round starts from.

    Raises:
        DataError: when the client has nothing to train on.
    """
    model = local_model.model.train()
    # For what draws inside the network, such as dropout.
    torch.manual_seed(derive_seed(work.seed, work.stage, work.track, work.round, work.client, "network"))
    task = objective.begin(model, work)
    if sum(task.num_examples().values()) < FEWEST_IN_BATCH:
        raise DataError(
            f"{work.client} has fewer than two pictures to train on with {objective.name}; "
            "give it more, or leave it out of the job"
        )
    optimizer = local_model.optimizer(objective.optimizer)
    restore_optimizer(optimizer, optimizer_state)
    with frozen(model, objective.frozen(local_model.model)), objective.stepping(optimizer) as stepping:
        run_epochs(local_model, objective, work, task, stepping)
    if work.steps is not None:
        return LocalResult({}, {}, {}, {}, {}, {})
    kept_optimizer = optimizer_tensors(optimizer) if objective.optimizer.state == "keep" else {}
    return LocalResult(
        task.num_examples(), task.losses(), task.outgoing(), task.keep(), kept_optimizer, task.scalars()
    )


@contextmanager
def frozen(model: nn.Module, names: frozenset[str]) -> Iterator[None]:
    """Let no gradient reach the named parameters while it lasts; an optimizer then leaves them alone."""
    still = [parameter for name, parameter in model.named_parameters() if name in names]
    for parameter in still:
        parameter.requires_grad = False
        parameter.grad = None
    try:
        yield
    finally:
        for parameter in still:
            parameter.requires_grad = True


def run_epochs(
    local_model: LocalModel,
    objective: Objective,
    work: LocalRound,
    task: LocalTask,
    optimizer: torch.optim.Optimizer,
) -> None:
    """The gradient steps of one client's round."""
    model = local_model.model
    anchor = [parameter.detach().clone() for parameter in model.parameters()] if objective.mu else []
    epochs = objective.epochs if work.steps is None else 1
    steps = max(len(work.examples) // objective.batch_size, 1)  # a guess, until an epoch has told
    for epoch in range(epochs):
        factor = objective.schedule.factor(work.round, work.rounds, epoch, objective.epochs)
        for group in optimizer.param_groups:
            group["lr"] = objective.optimizer.lr * factor * group.get("lr_scale", 1.0)
        step = 0
        for step, batch in enumerate(islice(task.batches(epoch), work.steps), start=1):
            if work.image_size is not None:
                batch = replace(batch, images=scale_down(batch.images, work.image_size))
            optimizer.zero_grad(set_to_none=True)
            with local_model.autocast():
                loss = task.loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            if objective.mu:
                add_proximal_gradient(model, anchor, objective.mu)
            if objective.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), objective.clip_norm)
            optimizer.step()
            task.after_step()
            work.watch((epoch + min(step / steps, 1.0)) / epochs)
        steps = max(step, 1)


def add_proximal_gradient(model: nn.Module, anchor: list[Tensor], mu: float) -> None:
    """Add μ (θ − θ^t), the gradient of FedProx's (μ/2) ‖θ − θ^t‖² (Li et al. 2020, Eq. 2)."""
    with torch.no_grad():
        for parameter, start in zip(model.parameters(), anchor, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(parameter - start, alpha=mu)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's state as named tensors on the CPU: `<parameter's place>/<key>`."""
    return {
        f"{place}/{key}": torch.as_tensor(value).to("cpu", copy=True)
        for place, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give an optimizer the state that `optimizer_tensors` took.

    A store keeps tensors row by row. Fused kernels walk through a parameter's memory and its state's side by
    side, so the state takes the parameter's own order again (channels last, for a convolution).
    """
    if not tensors:
        return
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place, key = name.split("/")
        parameter = parameters[int(place)].detach()
        own = torch.empty_like(parameter if tensor.shape == parameter.shape else tensor, dtype=tensor.dtype)
        state.setdefault(int(place), {})[key] = own.copy_(tensor)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
