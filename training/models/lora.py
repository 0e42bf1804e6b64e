"""Low-rank adapters: a small change to every linear layer and convolution (LoRA, Hu et al. 2022, Eq. 3).

    W = W_0 + s B A,   s = α / r

for W_0 the weight that stays as it is, A (r × in) and B (out × r) the factors that learn, α and r settings.
A convolution's weight `(out, in / groups, height, width)` is read as the matrix of `out` rows and
`in / groups · height · width` columns, so that stride, padding and groups change nothing. A is drawn from
a Gaussian, B begins at zero: at first W is W_0.

The adapters are `heads` of a `Network`: a layer `encoder.layer1.0.conv1` has `heads.encoder/layer1/0/conv1.a`
and `.b`, and every other name is that of the plain model.

Departures: the paper adapts attention alone and names no variance of A; here it is one over A's columns. A
layer whose smaller side is below r takes that side for its rank, with the same s.
"""

from collections.abc import Collection, Iterator
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from training.messages import Tensors
from training.models.cases import CaseNetwork, Network
from training.models.classifier import Classifier, FrozenBatchNormClassifier, Inputs

HEADS = "heads."  # before an adapter's names in the state of the network that carries it
LAYERS = (nn.Linear, nn.Conv2d)


class Factors(nn.Module):
    """A `(rank, columns)`, newly drawn, and B `(rows, rank)`, zero, of one layer."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.flatten(1).shape
        rank = min(rank, rows, columns)
        self.a = nn.Parameter(torch.randn(rank, columns) / sqrt(columns))
        self.b = nn.Parameter(torch.zeros(rows, rank))


class Adapters(nn.Module):
    """The factors of every linear layer and convolution of a model, at most of one rank."""

    def __init__(self, model: Classifier, rank: int, without: Collection[str] = ()) -> None:
        """Draws them.

        Args:
            model: whose layers.
            rank: r.
            without: names of parameters; layers that have one of them get no factors.
        """
        super().__init__()
        for name, layer in model.named_modules():
            if isinstance(layer, LAYERS) and f"{name}.weight" not in without:
                self.add_module(name.replace(".", "/"), Factors(layer.weight, rank))


class Adapted(FrozenBatchNormClassifier):
    """A network that computes with W_0 + s B A, its statistics held still.

    Encoder and adapters are the network's own, shared and not copied; W_0 is never written to.
    """

    def __init__(self, network: Classifier, scale: float) -> None:
        assert isinstance(network, Network | CaseNetwork), "the network carries adapters"
        super().__init__(network)
        self.heads = network.heads
        self._scale = scale
        self._called = (_Called(network),)  # in a tuple, for a module would become a part of this one

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits `(batch, classes)`."""
        return self._call("forward", inputs)

    def embed(self, inputs: Inputs) -> Tensor:
        """Pooled features `(batch, features)`."""
        return self._call("embed", inputs)

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits `(batch, classes)` of an embedding."""
        return self._call("classify", embedding)

    def _call(self, method: str, value: Inputs) -> Tensor:
        called = self._called[0]
        device = next(called.parameters()).device
        state = dict(called.network.named_parameters())
        # In full precision also where passes are in half: the merged model's weights are these.
        with torch.autocast(device.type, enabled=False):
            weights = {f"network.{name}": weight for name, weight in adapted_weights(state, self._scale)}
        result: Tensor = torch.func.functional_call(called, weights, (method, value))
        return result


class _Called(nn.Module):
    """Lets any method of a network be called with other weights."""

    def __init__(self, network: Network | CaseNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, method: str, value: Inputs) -> Any:
        return getattr(self.network, method)(value)


def adapted_weights(state: Tensors, scale: float) -> Iterator[tuple[str, Tensor]]:
    """The name of every adapted weight, and W_0 + s B A.

    Args:
        state: of a network with adapters.
        scale: s.
    """
    for name in state:
        if name.startswith(HEADS) and name.endswith(".a"):
            stem = name.removesuffix(".a")
            weight_name = stem.removeprefix(HEADS).replace("/", ".") + ".weight"
            weight = state[weight_name]
            yield weight_name, weight + (scale * (state[f"{stem}.b"] @ state[name])).view(weight.shape)


def weight_of(name: str) -> str:
    """The name of the weight that a factor changes; of any other tensor its own."""
    if not (name.startswith(HEADS) and name.endswith((".a", ".b"))):
        return name
    layer = name.removeprefix(HEADS)[:-2].replace("/", ".")
    return f"{layer}.weight" if layer.startswith("encoder.") else name


def merge_adapters(state: Tensors, scale: float) -> dict[str, Tensor]:
    """The state of the plain model that computes the same: adapters are added into their weights."""
    plain = {name: value for name, value in state.items() if not name.startswith(HEADS)}
    return {**plain, **dict(adapted_weights(state, scale))}
