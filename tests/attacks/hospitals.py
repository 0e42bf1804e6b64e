"""Hospitals whose test pictures an attacker is after, and what leaves them: answers of the real client."""

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor, nn

from registry.bundle.labels import Label, malignant_classes
from tests.attacks import old_way
from training.algorithms.client import Client
from training.algorithms.local_model import LocalModel
from training.data.dataset import Examples
from training.engines.wire import read_response, stamp_of, write_response
from training.messages import Broadcast, Update
from training.rounds.client.evaluate import evaluate
from training.rounds.requests import EvaluateRequest

SEED, GROUP = 11, "dark"
MIN_COUNT = 10  # what a job has that does not say otherwise
_REACH, _SIDE = 24.0, 8  # of the logits that a picture holds, and its pixels


@dataclass(frozen=True)
class Hospital:
    """One subgroup's test pictures.

    Attributes:
        name: as the job has it.
        logits: of the model, `(pictures, classes)`.
        labels: `(pictures,)`.
        lesions: `(pictures,)`.
    """

    name: str
    logits: NDArray[np.float64]
    labels: NDArray[np.int64]
    lesions: NDArray[np.int64]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        return softmax(self.logits, axis=1)

    @property
    def malignant(self) -> NDArray[np.bool_]:
        return malignant_classes(classes_of(self.logits.shape[1]))

    def under(self, model: "Model") -> "Hospital":
        """The same pictures under another model."""
        with torch.no_grad():
            seen = model.of_logits(torch.from_numpy(self.logits)).numpy()
        return replace(self, logits=seen)


def classes_of(count: int) -> tuple[Label, ...]:
    """Classes of which every third is malignant; of two, the second."""
    kinds = ["malignant" if place % 3 == 1 else "benign" for place in range(count)]
    return tuple(Label(code=f"C{k}", name=f"class {k}", malignancy=kind) for k, kind in enumerate(kinds))


def draw(
    rng: np.random.Generator, pictures: int, classes: int, name: str = "north", *, twins: bool = False
) -> Hospital:
    """Pictures of common and rare classes, most answered rightly, some with much and some with little doubt.

    Args:
        rng: of the draw.
        pictures: how many.
        classes: how many.
        name: of the hospital.
        twins: whether a quarter of the pictures are further ones of another's lesion.
    """
    common = 0.75 ** np.arange(classes)
    lesions = np.arange(pictures)
    if twins:
        again = rng.permutation(pictures)[: pictures // 4 * 2].reshape(2, -1)
        lesions[again[0]] = again[1]
    labels = rng.choice(classes, size=pictures, p=common / common.sum())[lesions]
    doubt = np.exp(rng.normal(0, 0.4, (pictures, 1)))
    logits = doubt * (2.5 * np.eye(classes)[labels] + rng.normal(0, 1.3, (pictures, classes)))
    held = _written(np.clip(logits, -_REACH, _REACH)).reshape(pictures, -1)[:, : 2 * classes]
    return Hospital(name, _unpacked(torch.from_numpy(held).double()).numpy(), labels, lesions)


def _written(logits: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Pictures whose first bytes hold logits, `(n, side, side, 3)`."""
    steps = np.rint((logits + _REACH) / (2 * _REACH) * 65535).astype(">u2")
    images = np.zeros((len(logits), _SIDE * _SIDE * 3), dtype=np.uint8)
    images[:, : 2 * logits.shape[1]] = np.frombuffer(steps.tobytes(), np.uint8).reshape(len(logits), -1)
    return images.reshape(-1, _SIDE, _SIDE, 3)


def _unpacked(raw: Tensor) -> Tensor:
    """The logits in the first bytes of pictures, to 16 bits: `(n, 2 classes)` to `(n, classes)`."""
    pairs = raw.reshape(len(raw), -1, 2)
    return (pairs[..., 0] * 256 + pairs[..., 1]) / 65535 * 2 * _REACH - _REACH


class Model(nn.Module):
    """A model whose logits stand in the pictures; linear after that, as the last layer of any model is.

    Args:
        classes: how many.
        weight: `(classes, classes)`; by default the logits are as they stand there.
        bias: `(classes,)`.
    """

    def __init__(
        self,
        classes: int,
        weight: NDArray[np.float64] | None = None,
        bias: NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(np.eye(classes) if weight is None else weight))
        self.bias = nn.Parameter(torch.from_numpy(np.zeros(classes) if bias is None else bias))

    def of_logits(self, logits: Tensor) -> Tensor:
        return logits @ self.weight.T + self.bias

    def forward(self, images: Tensor) -> Tensor:
        raw = (images.permute(0, 2, 3, 1).double() * 255).round().flatten(1)
        return self.of_logits(_unpacked(raw[:, : 2 * len(self.bias)]))


@dataclass(frozen=True)
class OneGroup:
    """The dataset of one hospital with one subgroup; implements `training.data.dataset.Dataset`."""

    hospital: Hospital
    subgroups: tuple[str, ...] = (GROUP,)
    fingerprint: str = "sha256:drawn"
    unseen: tuple[str, ...] = ()
    communities: Any = field(default_factory=lambda: MappingProxyType({}))

    @property
    def labels(self) -> tuple[Label, ...]:
        return classes_of(self.hospital.logits.shape[1])

    @property
    def clients(self) -> tuple[str, ...]:
        return (self.hospital.name,)

    def examples(self, client: str, split: str) -> Examples:
        of = self.hospital
        n = len(of.labels)
        return Examples(_written(of.logits), np.arange(n), of.labels, np.zeros(n, dtype=np.int64), of.lesions)


def ask(
    hospital: Hospital, model: Model | None = None, *, min_count: int = MIN_COUNT, **request: Any
) -> Update:
    """What the client of a hospital answers to `evaluate` about its test pictures."""
    data = OneGroup(hospital)
    local_model = LocalModel(model or Model(len(data.labels)), "cpu")  # type: ignore[arg-type]
    client = Client(hospital.name, SEED, min_count, data, None, local_model)  # type: ignore[arg-type]
    options = EvaluateRequest(split="test", subgroups=(GROUP,), **request).model_dump()
    return evaluate(Broadcast(hospital.name, "0-federate", 1, "evaluate", options=options), client)


def over_the_wire(update: Update) -> Update:
    """The answer as it is read from the bytes that the network engine sends."""
    request = Broadcast(update.client, update.stage, update.round, update.ask)
    stamp = stamp_of(request, "a" * 64, "session", 1)
    arrived = read_response(*write_response(update, stamp), stamp)
    assert isinstance(arrived, Update)
    return arrived


def arrays_of(update: Update) -> dict[str, NDArray[np.int64]]:
    """The arrays about the one subgroup, by name."""
    told = {name.rpartition("/")[0]: tensor.numpy() for name, tensor in update.tensors.items()}
    return {name: array.astype(np.int64) for name, array in told.items()}


def as_before(hospital: Hospital, secret: int | None = None) -> dict[str, NDArray[np.int64]]:
    """What the control sends about the hospital, with the job's seed or a secret one."""
    return old_way.release(
        hospital.probabilities,
        hospital.labels,
        hospital.malignant,
        old_way.weights(SEED if secret is None else secret, hospital.name, GROUP, len(set(hospital.lesions))),
        hospital.lesions,
    )
