"""Policies: which of the T most similar peers take part (FedPerl, section 2.3.5).

The policy sees the top T and may leave any of them out; where none is left, the client learns without peers
in that round.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from registry.bundle.plugins import PartTable
from training.algorithms.exchanges.similarity.base import Candidate
from training.config import FrozenConfig


class Policy(FrozenConfig, ABC):
    """Which peers pass.

    Attributes:
        judges: whether it looks at accuracies on validation pictures that the coordinator owns.
        compares: whether it looks at similarities.
    """

    judges: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    name: str

    @abstractmethod
    def passes(self, client: str, peer: Candidate, accuracies: Mapping[str, float]) -> bool:
        """Whether `peer` may teach `client`.

        Args:
            client: who would learn.
            peer: who would teach.
            accuracies: V_acc of each client's newest upload, where the policy judges.
        """


class Static(Policy):
    """All T."""

    name: Literal["static"] = "static"

    def passes(self, client: str, peer: Candidate, accuracies: Mapping[str, float]) -> bool:
        """Always."""
        return True


class Validation(Policy):
    """Ω = {C_n | V_acc(C_n) ≥ V_acc(C_m)} (Eq. 10), of what each uploaded last."""

    judges: ClassVar[bool] = True
    name: Literal["validation"] = "validation"

    def passes(self, client: str, peer: Candidate, accuracies: Mapping[str, float]) -> bool:
        """Whether the peer is at least as accurate as the client."""
        return accuracies[peer.client] >= accuracies[client]


class GatedValidation(Policy):
    """Ω = {C_n | V_acc(C_n) ≥ ρ} (Eq. 11).

    Attributes:
        threshold: ρ, an accuracy.
    """

    judges: ClassVar[bool] = True
    name: Literal["gated-validation"] = "gated-validation"
    threshold: float = Field(0.95, ge=0, le=1)

    def passes(self, client: str, peer: Candidate, accuracies: Mapping[str, float]) -> bool:
        """Whether the peer is accurate enough."""
        return accuracies[peer.client] >= self.threshold


class GatedSimilarity(Policy):
    """Ω = {C_n | H_sim(C_m, C_n) ≥ ρ} (Eq. 12).

    Attributes:
        threshold: ρ, a cosine similarity.
    """

    compares: ClassVar[bool] = True
    name: Literal["gated-similarity"] = "gated-similarity"
    threshold: float = Field(0.95, ge=-1, le=1)

    def passes(self, client: str, peer: Candidate, accuracies: Mapping[str, float]) -> bool:
        """Whether the peer is similar enough."""
        assert peer.similarity is not None, "the exchange refuses this policy where nothing is compared"
        return peer.similarity >= self.threshold


POLICIES: PartTable[Policy] = PartTable(
    "policy", Static, Validation, GatedValidation, GatedSimilarity, base=Policy, plural="policies"
)
