"""A stage `personalize` with any strategy, and plain loops of torch that should do the same."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.closeness import assert_close_in_norm
from training.messages import Tensors, named
from training.models import build_model
from training.models.classifier import float_state
from training.randomness import generator
from training.rounds.server.checkpoint import Checkpoints

KEY = "0-personalize"
BATCH, RATE, MOMENTUM = 6, 0.02, 0.9
NORM = re.compile(r"encoder\.(.+\.)?(bn\d|downsample\.1)\.")  # ResNet's normalisation layers


@pytest.fixture
def stages() -> Callable[..., list[dict[str, Any]]]:
    """`stages({"name": "head", "epochs": 2}, rate=0.02, state="reset", **stage)`."""

    def build(
        strategy: dict[str, Any],
        rate: float = RATE,
        momentum: float = MOMENTUM,
        state: str = "reset",
        **stage: Any,
    ) -> list[dict[str, Any]]:
        objective = {
            "name": "supervised",
            "batch_size": BATCH,
            "sampling": "uniform",
            "augment": {"flip": False},
            "optimizer": {"name": "sgd", "lr": rate, "momentum": momentum, "state": state},
        }
        if strategy["name"] != "none":
            strategy = {"objective": objective, **strategy}
        return [{"stage": "personalize", "strategy": strategy, **stage}]

    return build


@pytest.fixture
def newest() -> Callable[..., Tensors]:
    """`newest(stage, "light")`: the state of one model's network after the last epoch."""

    def read(stage: Any, track: str) -> Tensors:
        found = Checkpoints(stage.context.folder, stage.context.digest).newest()
        assert found is not None
        return named(found.tensors, f"{track}/weights/")

    return read


@pytest.fixture
def changed() -> Callable[[Tensors, Tensors], set[str]]:
    """`changed(start, end)`: the names of tensors that are not the same bit for bit."""
    return lambda start, end: {name for name in start if not start[name].equal(end[name])}


@pytest.fixture
def normalisation() -> Callable[[Tensors], set[str]]:
    """`normalisation(state)`: the names of all that normalisation layers hold."""
    return lambda state: {name for name in state if NORM.match(name)}


@pytest.fixture
def assert_close() -> Callable[[Tensors, Tensors], None]:
    """`assert_close(found, expected)`: the same names, the same values up to rounding."""

    def check(found: Tensors, expected: Tensors) -> None:
        assert_close_in_norm(found, expected)

    return check


def scaled(images: np.ndarray) -> torch.Tensor:
    """Pictures `(n, 3, height, width)` in [0, 1]."""
    return torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)


@pytest.fixture
def local_loop() -> Callable[..., list[dict[str, torch.Tensor]]]:
    """`local_loop(job, start, examples, track, client, ...)`: states after each epoch of SGD, from epoch 0.

    `trained(model)` gives the parameters, `after_backward(model)` changes gradients, `still` keeps the batch
    normalisations in evaluation mode, `prepare(model)` changes the model before anything else. With `keep`
    the optimizer goes on where it was.
    """

    def run(
        job,
        start,
        examples,
        track,
        client,
        *,
        epochs,
        rate=RATE,
        momentum=MOMENTUM,
        trained=None,
        after_backward=None,
        still=False,
        prepare=None,
        keep=False,
    ):
        model = build_model(job.model, 3, seed=1)
        model.load_state_dict(start, strict=False)
        model.train().to(memory_format=torch.channels_last)
        if prepare:
            prepare(model)
        for layer in model.modules():
            if still and isinstance(layer, torch.nn.BatchNorm2d):
                layer.eval()
        parameters = trained(model) if trained else list(model.parameters())
        images, labels = scaled(examples.batch(np.arange(len(examples)))), torch.from_numpy(examples.labels)
        states = [{name: value.clone() for name, value in float_state(model).items()}]
        optimizer = torch.optim.SGD(parameters, rate, momentum, fused=True)
        for epoch in range(1, epochs + 1):
            if not keep:
                optimizer = torch.optim.SGD(parameters, rate, momentum, fused=True)
            order = generator(job.seed, KEY, track, epoch, client, "order 0").permutation(len(labels))
            cuts = [cut for cut in range(BATCH, len(order), BATCH) if len(order) - cut > 1]
            for batch in np.split(order, cuts):
                model.zero_grad()
                F.cross_entropy(model(images[batch]), labels[batch]).backward()
                if after_backward:
                    after_backward(model)
                optimizer.step()
            states.append({name: value.clone() for name, value in float_state(model).items()})
        return states

    return run


@pytest.fixture
def answers() -> Callable[..., np.ndarray]:
    """`answers(job, state, examples)`: the class of highest probability for each picture."""

    def predict(job, state, examples) -> np.ndarray:
        model = build_model(job.model, 3, seed=1).eval()
        model.load_state_dict(state, strict=False)
        with torch.inference_mode():
            return model(scaled(examples.batch(np.arange(len(examples))))).argmax(dim=1).numpy()

    return predict


@pytest.fixture
def killed(monkeypatch) -> Callable[..., Any]:
    """`killed(stage, round, before=...)`: a stage that dies when it saves a round, and is run on."""

    def run(stage, round_: int, *, before: bool):
        real = Checkpoints.save

        def save(self, checkpoint):
            if checkpoint.round == round_ and before:
                raise KeyboardInterrupt
            real(self, checkpoint)
            if checkpoint.round == round_:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "save", save)
            with pytest.raises(KeyboardInterrupt):
                stage.run()
        return stage.run()

    return run


@pytest.fixture
def two_of_light(draw_hospitals):
    """North has twice as many light training pictures as west, 14 and 7; dark is south's alone."""
    sizes = {"light": (14, 5, 0, 0), "dark": (9, 4, 0, 0)}
    data = draw_hospitals(sizes, {"north": "light", "south": "dark", "west": "light"})
    west = data.held["west", "train"].where(np.arange(14) < 7)
    return replace(data, held={**data.held, ("west", "train"): west})


@pytest.fixture
def mixed(hospitals):
    """North and south, each with pictures of both subgroups in every split."""
    held = {
        key: replace(part, subgroups=(np.arange(len(part)) % 2).astype(np.int64))
        for key, part in hospitals.held.items()
    }
    return replace(hospitals, held=held)
