"""A coordinator that wants one hospital's numbers, and tells it of other hospitals than all the others.

It has seen who holds whose shares. The victim is told that some of its holders are there: it masks with
those. All others are told that just those have left, and give the shares that take the victim's masks with
them off; the rest of the victim's holders give those of its self mask. Hospitals that help it lend what they
hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from training.errors import QuorumError
from training.messages import Answer, Broadcast, Update
from training.privacy.secagg.arithmetic import FixedPointVector, Recovery, decode
from training.privacy.secagg.keys import Agreement, Signed, derive
from training.privacy.secagg.messages import (
    CONFIRM,
    KEY_SHARES,
    MASKED,
    SEALED,
    SEALED_BYTES,
    SELF_SHARES,
    SIGNATURE,
    UNMASK,
    ConfirmRequest,
    MaskedRequest,
    UnmaskRequest,
    masks_about,
    read_json,
    rows_tensor,
)
from training.privacy.secagg.server import SecureSum
from training.privacy.secagg.sums import read_masked_update
from training.privacy.settings import SecureAggregationConfig
from training.randomness import KEY_BYTES

Ask = Callable[[Sequence[Broadcast]], Sequence[Answer]]


@dataclass
class Attack:
    """One sum, in the hands of such a coordinator.

    Attributes:
        ask: reaches hospitals.
        summing: as far as shares.
        sealed: the shares that came, by place.
        layout: what is summed.
        lent: mask keys of hospitals that help.
    """

    ask: Ask
    summing: SecureSum
    sealed: Mapping[int, Sequence[bytes]]
    layout: tuple[Any, ...]
    lent: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        ask: Ask,
        updates: Sequence[Update],
        config: SecureAggregationConfig,
        asked: str = "",
    ) -> "Attack":
        held = [read_masked_update(update) for update in updates]
        names = [update.client for update in updates]
        summing = SecureSum(
            ask,
            updates[0],
            names,
            [each.keys for each in held],
            config.threshold(len(names)),
            signed=[each.signed for each in held],
            asked=asked,
        )
        return cls(ask, summing, summing.shares(), tuple(held[0].layout))

    def alone(self, victim: int, told: Sequence[int], helpers: Sequence[int] = ()) -> torch.Tensor:
        """The victim's counts.

        Args:
            victim: its place.
            told: those that it is told are there. Of them those that do not help are gone for
                all others.
            helpers: hospitals that lend the coordinator what they hold.

        Raises:
            QuorumError, MessageError: with why it fails.
        """
        summing = self.summing
        everybody = range(len(summing.clients))
        common = {**summing.common, "weight": 1, "total_weight": len(everybody), "layout": self.layout}
        seen = tuple(sorted({victim, *told, *helpers}))
        gone = [place for place in told if place not in helpers]
        plans = {place: MaskedRequest(**common, present=tuple(everybody)) for place in everybody}
        plans[victim] = MaskedRequest(**common, present=seen)
        masked = self.put(
            MASKED,
            {place: self.masked_by(place, plans[place]) for place in everybody},
            victim,
        )
        survivors = tuple(place for place in everybody if place not in gone)
        others = [place for place in survivors if place != victim]
        confirmed: tuple[tuple[int, Signed], ...] = ()
        if summing.signed[victim] is not None:
            request = ConfirmRequest(**summing.common, survivors=survivors).model_dump()
            agreed = self.put(CONFIRM, {place: ({}, request) for place in others})
            confirmed = tuple(
                (place, Signed.model_validate(read_json(update.tensors[SIGNATURE])))
                for place, update in agreed.items()
            )
        request = UnmaskRequest(**summing.common, survivors=survivors, confirmed=confirmed).model_dump()
        given = self.put(UNMASK, {place: ({}, request) for place in others})
        selves = {p: summing.held(u, SELF_SHARES, survivors) for p, u in given.items()}
        keys = {p: summing.held(u, KEY_SHARES, gone) for p, u in given.items()}
        total = FixedPointVector.from_tensors(masked[victim].tensors)
        own = self.secret_of(victim, selves)
        total.subtract(total.mask(derive(own, summing.session, "self mask")))
        about, public = masks_about(summing.session, plans[victim]), summing.public[victim][:KEY_BYTES]
        for place in (each for each in seen if each != victim):
            key = self.lent[place] if place in helpers else self.secret_of(place, keys)
            pair = total.mask(Agreement(key).with_(public, about, "pair mask"))
            total.subtract(pair) if victim < place else total.add(pair)
        return decode(total, self.layout, len(everybody))["counts"]

    def secret_of(self, place: int, given: Mapping[int, Mapping[int, bytes] | None]) -> bytes:
        shares = {holder: each[place] for holder, each in given.items() if each}
        return self.summing.secret(Recovery.of(shares, self.summing.threshold), shares)

    def masked_by(self, place: int, plan: MaskedRequest) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The request to a hospital; shares of those alone whom it is told of."""
        rows = [self.sealed[sender][place] for sender in plan.present]
        return {SEALED: rows_tensor(rows, SEALED_BYTES)}, plan.model_dump()

    def put(self, ask: str, requests: Mapping[int, Any], needed: int | None = None) -> dict[int, Update]:
        """Answers; those that refuse are left out, unless it is the one that is needed."""
        about = self.summing.about
        asked = [
            Broadcast(self.summing.clients[place], about.stage, about.round, ask, about.track, *request)
            for place, request in requests.items()
        ]
        found = {}
        for place, answer in zip(requests, self.ask(asked), strict=True):
            if isinstance(answer, Update):
                found[place] = answer
            elif place == needed:
                raise QuorumError(answer.reason)
        return found
