"""A classifier of cases: one encoder for all pictures, their fusion with facts, and a linear head."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from registry.bundle.cases import EMPTY, UNSAID, CaseInput, CategoryFact, NumberFact
from training.config import FrozenConfig
from training.models.classifier import CaseBatch, Classifier, Inputs

BANDS = 5  # of a number's range, in each of which it may count otherwise


class FusionConfig(FrozenConfig):
    """How a case becomes one embedding.

    Attributes:
        width: of the perceptron on the facts, and of what it gives; with 0 there is none, and the head takes
            the facts' columns as they are.
        drop_pictures: how often each picture is left out in training; one always stays.
        drop_facts: how often all facts are left out in training; as often again each is with probability 1/2.
        drop_kinds: how often a picture's kind is left unsaid in training.
    """

    width: int = Field(32, ge=0)
    drop_pictures: float = Field(0.3, ge=0, lt=1)
    drop_facts: float = Field(0.3, ge=0, le=0.5)
    drop_kinds: float = Field(0.1, ge=0, lt=1)

    @property
    def drops(self) -> bool:
        """Whether anything is left out in training."""
        return max(self.drop_pictures, self.drop_facts, self.drop_kinds) > 0


class Fusion(nn.Module):
    """Fusion: how pictures of several kinds and facts become one embedding of a case.

        e = [ s_k p_k for every kind k | m_k s for every kind k | g(context) ],
        s_k = m_k s,   s = 1 / Σ_k m_k

    for p_k the mean of the normalised features of the pictures of kind k (those that come standardised are
    left as they are), m_k whether there is one, and g a small perceptron, or nothing. A linear layer on e is
    the mean of one linear layer for each kind that is there, and one for the facts: with a single picture it
    says what a layer of that kind alone would say, with several their mean.

    In training pictures, facts and kinds are left out at random (modality dropout, Neverova et al. 2016), so
    that any part of a case can be answered.

    Args:
        features: the width of a picture's features.
        case: what a case has.
        config: how they are fused.
        normalises: whether a picture's features are normalised over their width first.
    """

    def __init__(
        self, features: int, case: CaseInput, config: FusionConfig, *, normalises: bool = True
    ) -> None:
        super().__init__()
        self.config, self.normalises = config, normalises
        self.kinds = 1 + len(case.kinds)  # with those of unknown kind
        self.facts = FactColumns(case.facts)
        inputs = self.facts.width
        self.context = (
            nn.Sequential(
                nn.Linear(inputs, config.width), nn.GELU(), nn.Linear(config.width, config.width), nn.GELU()
            )
            if inputs and config.width
            else None
        )
        self.width = self.kinds * (features + 1) + (config.width or inputs if inputs else 0)

    def forward(self, features: Tensor, kinds: Tensor, context: Tensor) -> Tensor:
        """The embedding `(batch, width)`.

        Args:
            features: of the pictures, `(batch, slots, features)`.
            kinds: of the pictures, `(batch, slots)`; -1 where a slot is empty.
            context: the facts, `(batch, facts)`, NaN where one is not known.
        """
        normalised = F.layer_norm(features, features.shape[-1:]) if self.normalises else features
        of_kind = (kinds[..., None] == torch.arange(self.kinds, device=kinds.device)).to(normalised.dtype)
        counts = of_kind.sum(dim=1)
        means = torch.einsum("bsk,bsf->bkf", of_kind, normalised) / counts.clamp(min=1)[..., None]
        there = (counts > 0).to(normalised.dtype)
        share = there / there.sum(dim=1, keepdim=True).clamp(min=1)
        parts = [(share[..., None] * means).flatten(1), share]
        if self.facts.width:
            columns = self.facts(context).to(normalised.dtype)
            parts.append(columns if self.context is None else self.context(columns))
        return torch.cat(parts, dim=1)

    def drop(self, batch: CaseBatch) -> CaseBatch:
        """The cases with pictures, facts and kinds left out at random, drawn from torch's own generator."""
        shape, device = batch.kinds.shape, batch.kinds.device
        present = batch.present
        # Where all pictures of a case are to go, the one with the highest draw stays.
        draws = torch.rand(shape).to(device).masked_fill(~present, -1)
        kept = present & (draws >= self.config.drop_pictures)
        best = F.one_hot(draws.argmax(dim=1), shape[1]).bool()
        kept = torch.where(kept.any(dim=1, keepdim=True), kept, best & present)
        unsaid = torch.rand(shape).to(device) < self.config.drop_kinds
        kinds = torch.where(unsaid & kept, UNSAID, batch.kinds).masked_fill(~kept, EMPTY)
        draw = torch.rand(shape[0], 1).to(device)
        some = torch.rand(batch.context.shape).to(device) < 0.5
        gone = (draw < self.config.drop_facts) | ((draw < 2 * self.config.drop_facts) & some)
        return replace(batch, kinds=kinds, context=batch.context.masked_fill(gone, torch.nan))


class FactColumns(nn.Module):
    """Facts as columns: whether one is unknown, and its value, one-hot or on a ramp over each band.

    A number x in [low, high] has a column for each of `BANDS` equal parts of that range, which rises from 0
    to 1 within it: a piecewise linear function of x is linear in them.
    """

    def __init__(self, facts: Sequence[NumberFact | CategoryFact]) -> None:
        super().__init__()
        self.takes = tuple(facts)
        self.width = sum(1 + (BANDS if isinstance(fact, NumberFact) else len(fact.values)) for fact in facts)

    def forward(self, context: Tensor) -> Tensor:
        """The columns `(batch, width)` of facts `(batch, facts)`."""
        columns = []
        for place, fact in enumerate(self.takes):
            value = context[:, place : place + 1]
            unknown = torch.isnan(value)
            known = torch.where(unknown, torch.zeros_like(value), value)
            if isinstance(fact, NumberFact):
                scaled = BANDS * (known - fact.low) / (fact.high - fact.low)
                encoded = (scaled - torch.arange(BANDS, device=value.device)).clamp(0, 1)
            else:
                encoded = (known == torch.arange(len(fact.values), device=value.device)).to(value.dtype)
            columns += [unknown.to(value.dtype), torch.where(unknown, torch.zeros_like(encoded), encoded)]
        return torch.cat(columns, dim=1)


class CaseClassifier(Classifier):
    """An encoder, the fusion of what it makes of a case's pictures with facts, and a linear head.

    Takes a `CaseBatch`. Pictures by themselves `(batch, 3, height, width)` are cases of one picture of
    unknown kind without facts.

    Args:
        encoder: a timm model without a classifier, or `Encoders`.
        case: what a case has.
        config: how it is fused.
        num_classes: outputs of the head.
    """

    def __init__(self, encoder: Any, case: CaseInput, config: FusionConfig, num_classes: int) -> None:
        super().__init__(encoder)
        self.case = case
        standardised = getattr(encoder, "standardised", False)
        self.fusion = Fusion(self.num_features, case, config, normalises=not standardised)
        self.head = zero_linear(self.fusion.width, num_classes)

    @property
    def num_classes(self) -> int:
        """The outputs of the head."""
        return self.head.out_features

    @property
    def head_names(self) -> tuple[str, ...]:
        """The state names of everything behind the encoder."""
        return tuple(name for name in self.state_dict() if name.startswith(("fusion.", "head.")))

    def as_cases(self, inputs: Inputs) -> CaseBatch:
        """Pictures, or their features, as cases of one picture of unknown kind without facts."""
        if isinstance(inputs, CaseBatch):
            return inputs
        nothing = torch.full((len(inputs), len(self.case.facts)), torch.nan, device=inputs.device)
        kinds = torch.full((len(inputs), 1), UNSAID, device=inputs.device)
        return CaseBatch(inputs[:, None], kinds, nothing)

    def embed(self, inputs: Inputs) -> Tensor:
        """The embedding `(batch, width)` before the linear head; in training, of a part of each case."""
        cases = self.as_cases(inputs)
        if self.training:
            cases = self.fusion.drop(cases)
        return self.fuse(self.features_of(cases), cases)

    def features_of(self, cases: CaseBatch) -> Tensor:
        """The features of every picture `(batch, slots, features)`; zeros in empty slots."""
        if cases.images.ndim == 3:
            return cases.images * cases.present[..., None]
        present = cases.present
        found = self.features(cases.images[present])
        features = found.new_zeros(*present.shape, found.shape[1])
        features[present] = found
        return features

    def fuse(self, features: Tensor, cases: CaseBatch) -> Tensor:
        """The embedding of cases `(batch, width)`, from their pictures' features."""
        fused: Tensor = self.fusion(features, cases.kinds, cases.context)
        return fused

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits `(batch, classes)` of an embedding."""
        logits: Tensor = self.head(embedding)
        return logits


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer that begins at zero: every class is as likely at first, whatever is shown."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Network(Classifier):
    """The classifier's encoder, shared and not copied, and `heads`.

    Its state is named as the classifier's, with `heads.` next to `encoder.`: what pre-training leaves is the
    same without them.
    """

    def __init__(self, model: Classifier, heads: nn.Module) -> None:
        super().__init__(model.encoder)
        self.heads = heads


class CaseNetwork(CaseClassifier):
    """A classifier of cases and `heads`; encoder, fusion and head are the classifier's own."""

    def __init__(self, model: CaseClassifier, heads: nn.Module) -> None:
        super(CaseClassifier, self).__init__(model.encoder)
        self.case, self.fusion, self.head = model.case, model.fusion, model.head
        self.heads = heads


def carrying(model: Classifier, heads: nn.Module) -> Network | CaseNetwork:
    """All of a model, shared, and `heads` in addition to it."""
    return CaseNetwork(model, heads) if isinstance(model, CaseClassifier) else Network(model, heads)


def projection(features: int, hidden: int, out: int) -> nn.Sequential:
    """A two-layer perceptron `features → hidden → out`, as SimCLR and MoCo v2 put on their encoders."""
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, out))
