"""Peers: each client gets models of clients that resemble it, those that a policy lets pass (FedPerl)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from registry.bundle.plugins import PartTable
from training.algorithms.exchanges.base import PREFIX, Exchange, Parcel, ServerContext, Shared
from training.algorithms.exchanges.similarity import SIMILARITIES, Candidate, PeerSimilarity, WeightSimilarity
from training.config import FrozenConfig
from training.data.dataset import SERVER
from training.errors import JobError
from training.messages import Tensors, Update, all_finite, named, prefixed


class Policy(FrozenConfig, ABC):
    """Policies: which of the T most similar peers take part (FedPerl, section 2.3.5).

    The policy sees the top T and may leave any of them out; where none is left, the client learns without
    peers in that round.

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


PROFILE, UPLOADED, ACCURACY = "profile/", "uploaded/", "accuracy/"


def peer_prefix(place: int) -> str:
    """Before the names of the weights of the peer at `place`, on the wire."""
    return f"peer-{place}/"


class Peers(Exchange):
    """Peers: each client gets models of similar clients (Bdair et al. 2022, FedPerl, section 2.3).

    After each round the server keeps what the clients that took part uploaded and updates its picture of who
    resembles whom. From round `warm_up` + 1 on, client m gets the T most similar others among all that ever
    took part, as the policy lets pass; with peer anonymization (Eq. 6) it gets one model of their averaged
    weights,

        φ_a = (1/|Ω|) Σ_{t ∈ Ω} φ_t,

    and without it |Ω| models. A client is never its own peer. One that has not taken part yet has no similar
    clients, and learns without peers, as does every client with T = 0: then the system is FedAvg with
    FixMatch (SSFL). The client `server`, which is the coordinator's own, neither has peers nor is one.

    With `choice: predictions` and T = 2 these are FedMatch's helpers, without its decomposition of weights;
    with anonymization that is FedMatch+.

    What this does not hide: without anonymization, or with one peer, a client receives another client's
    weights as they are, from which pictures may be distinguished. With it, a client that knows T - 1 of the
    models can compute the last.

    Departures: with `every` above 1 the clients learn without peers in the rounds between. The authors' code
    gives a client that has not taken part yet T peers at random; here it has none, since a peer of unknown
    similarity costs as many bytes and counts as much as a similar one.

    Attributes:
        peers: T, how many at most.
        anonymous: one model of their averaged weights travels in their stead.
        choice: by what peers are ranked.
        policy: which of the first T take part.
        warm_up: rounds without peers.
        every: peers travel in every so-manieth round after that.
    """

    shared: ClassVar[Shared | None] = "peers"
    name: Literal["peers"] = "peers"
    peers: int = Field(2, ge=0)
    anonymous: bool = True
    choice: Annotated[PeerSimilarity, SIMILARITIES] = WeightSimilarity()
    policy: Annotated[Policy, POLICIES] = Static()
    warm_up: int = Field(10, ge=0)
    every: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _what_is_compared(self) -> "Peers":
        if self.policy.compares and not isinstance(self.choice, WeightSimilarity):
            raise ValueError(
                f"policy {self.policy.name} compares similarities of weights; choice {self.choice.name} has "
                "none: use choice weights, or another policy"
            )
        return self

    @property
    def needs_server(self) -> bool:
        """Whether uploads are judged."""
        return self.policy.judges or (isinstance(self.choice, WeightSimilarity) and self.choice.accuracy)

    @property
    def carries_weights(self) -> bool:
        """Whether there are peers."""
        return self.peers > 0

    def outgoing(
        self,
        client: str,
        round_: int,
        memory: Tensors,
        random: np.random.Generator,
        server_context: ServerContext,
    ) -> Parcel:
        """The peers that pass, or their average."""
        committee = self.committee(client, round_, memory, random)
        if not committee.passed:
            return Parcel({}, committee.note)
        models = (
            server_context.get(peer.client, int(memory[UPLOADED + peer.client])) for peer in committee.passed
        )
        if self.anonymous:
            return Parcel(prefixed(mean_of(models), peer_prefix(0)), committee.note)
        tensors: dict[str, Tensor] = {}
        for place, model in enumerate(models):
            tensors |= prefixed(model, peer_prefix(place))
        return Parcel(tensors, committee.note)

    def committee(
        self, client: str, round_: int, memory: Tensors, random: np.random.Generator
    ) -> "Committee":
        """The peers that teach `client` in this round."""
        profiles = named(memory, PROFILE)
        waited = round_ - self.warm_up - 1
        if not self.peers or client not in profiles or waited < 0 or waited % self.every:
            return Committee()
        accuracies = {name: float(value) for name, value in named(memory, ACCURACY).items()}
        top = self.choice.rank(client, profiles, random)[: self.peers]
        passed = [peer for peer in top if self.policy.passes(client, peer, accuracies)]
        return Committee(tuple(passed), tuple(peer for peer in top if peer not in passed))

    def collect(self, update: Update, memory: Tensors, server_context: ServerContext) -> Tensors:
        """Of which round a client's newest upload is; the weights themselves go to the upload store."""
        if not self.peers or update.client == SERVER:
            return memory
        weights = {name: tensor for name, tensor in update.tensors.items() if not name.startswith(PREFIX)}
        previous = memory.get(UPLOADED + update.client)
        server_context.put(update.client, update.round, weights, None if previous is None else int(previous))
        return {**memory, UPLOADED + update.client: torch.tensor(update.round)}

    def conclude(
        self, clients: Sequence[str], round_: int, memory: Tensors, server_context: ServerContext
    ) -> Tensors:
        """The profiles of the round's uploads, and their accuracies where those are asked for.

        A client whose upload cannot be judged or compared, because the model's answers are not finite, is not
        used as a peer until its next upload, and gets none.

        Raises:
            JobError: when no upload of the round could be judged.
        """
        known = dict(memory)
        hospitals = [client for client in clients if client != SERVER] if self.peers else []
        judged = 0
        for client in hospitals:
            weights = server_context.get(client, round_)
            known.pop(PROFILE + client, None)
            known.pop(ACCURACY + client, None)
            accuracy = server_context.validation_accuracy(weights) if self.needs_server else None
            if self.needs_server and accuracy is None:
                continue
            judged += 1
            profile = self.choice.profile(weights, accuracy, server_context)
            if all_finite(profile):
                known[PROFILE + client] = profile
            if accuracy is not None:
                known[ACCURACY + client] = torch.tensor(accuracy, dtype=torch.float64)
        if hospitals and not judged:
            raise JobError(
                f"{SERVER} could judge none of the uploads of round {round_} ({', '.join(hospitals)}); the "
                "models may have diverged: lower objective.optimizer.lr"
            )
        return known

    def facts(self, memory: Tensors) -> Mapping[str, Any]:
        """The similarity matrix W, where there is one."""
        profiles = named(memory, PROFILE)
        if not profiles or not isinstance(self.choice, WeightSimilarity):
            return {}
        names, matrix = self.choice.matrix(profiles)
        return {"similarity": {"clients": names, "matrix": matrix.round(6).tolist()}}


@dataclass(frozen=True)
class Committee:
    """The most similar others: those that the policy let pass, and those that it left out."""

    passed: tuple[Candidate, ...] = ()
    refused: tuple[Candidate, ...] = ()

    @property
    def note(self) -> dict[str, Any]:
        """What is logged of it; nothing where no peers were requested."""
        if not self.passed and not self.refused:
            return {}
        note: dict[str, Any] = {"peers": [peer.client for peer in self.passed]}
        similarities = [peer.similarity for peer in self.passed]
        if None not in similarities:
            note["similarity"] = [round(value, 6) for value in similarities if value is not None]
        if self.refused:
            note["refused"] = [peer.client for peer in self.refused]
        return note


def mean_of(models: Iterable[Tensors]) -> dict[str, Tensor]:
    """The mean of several models' weights, one of them in memory at a time; summed in float64."""
    total: dict[str, Tensor] = {}
    count = 0
    for model in models:
        types = {name: tensor.dtype for name, tensor in model.items()}
        for name, tensor in model.items():
            total[name] = total[name].add_(tensor) if name in total else tensor.to(torch.float64, copy=True)
        count += 1
    return {name: tensor.div_(count).to(types[name]) for name, tensor in total.items()}
