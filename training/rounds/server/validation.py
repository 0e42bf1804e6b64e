"""Validation of updates: what the server refuses, and names, before anything is aggregated.

Names, shapes, finite values and numbers of pictures are checked, each update by itself; reports are held
against the census (`training.rounds.census`). An update that goes much farther than the others of its round
is refused, too. Of each update's two parts, parameters and normalisation statistics, the norm of the
difference to what the client was sent is compared with the others': client c is refused where

    ‖θ_c − θ^t‖₂ > limit · median_i ‖θ_i − θ^t‖₂ · max(1, n_c / median_i n_i)

over all clients i that answered about this model, n being the training pictures that each reported in the
census: a client with more of them takes more steps. The median is the lower one of two, so that it is an
honest client's as long as fewer than half of three or more are not. With fewer than three answers none can be
singled out, and where most do not move at all (a median of 0) there is nothing to compare with.

It catches what is broken or crude, an update multiplied by a hundred; not one that is made to look like
others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median_low

import torch
from torch import Tensor

from training.algorithms.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE, Need
from training.algorithms.exchanges.base import PREFIX
from training.algorithms.sync import BUFFERS
from training.errors import MessageError
from training.messages import Answer, Broadcast, Failure, Tensors, Update, check_trained, check_update
from training.rounds.requests import CHANGE, RECEIVED
from training.rounds.server.plan import Plan, States, Track, TrackState, weights_for

FEWEST = 3  # answers of which a median tells anything
PIECE = 2**17  # values: their difference stays in the processor's cache between its two uses
# Between these a sum of a piece's squares in single precision has neither overflowed nor lost what counts.
LEAST, MOST = 2.0**-80, torch.finfo(torch.float32).max
Norms = Mapping[str, float]  # by part


def refuse_beyond_bound(
    updates: Sequence[Update],
    received: Callable[[str], Tensors],
    names: Sequence[str],
    sizes: Mapping[str, int],
    limit: float,
) -> list[Failure]:
    """What becomes of the updates that go too far.

    Args:
        updates: of one model in one round, each checked by itself.
        received: gives θ^t as a client was sent it.
        names: of the weights that travel.
        sizes: n by client, where they are known.
        limit: how many times the median is allowed.
    """
    if len(updates) < FEWEST or not names:
        return []
    norms = {update.client: norms_of(update.tensors, received(update.client), names) for update in updates}
    pictures = {update.client: max(sizes.get(update.client, 1), 1) for update in updates}
    usual = median_low(pictures.values())
    found: dict[str, Failure] = {}
    for part in norms[updates[0].client]:
        middle = median_low(each[part] for each in norms.values())
        for update in updates:
            client, norm = update.client, norms[update.client][part]
            allowed = limit * middle * max(1.0, pictures[client] / usual)
            if middle and norm > allowed:
                reason = too_far(client, part, norm, middle, allowed)
                found.setdefault(client, Failure(client, update.track, reason))
    return list(found.values())


def norms_of(tensors: Tensors, received: Tensors, names: Sequence[str]) -> Norms:
    """‖θ_c − θ^t‖₂ of the parameters and of the statistics among these names."""
    own = dict(tensors.items())  # opened once where they came compressed
    squares = {"parameters": 0.0, "statistics": 0.0}
    room = torch.empty(PIECE)
    for name in names:
        part = "statistics" if name.endswith(BUFFERS) else "parameters"
        squares[part] += squared_distance(own[name].float(), received[name].float(), room)
    return {part: total**0.5 for part, total in squares.items()}


def squared_distance(own: Tensor, received: Tensor, room: Tensor) -> float:
    """‖a − b‖₂² of two float32 tensors of one shape: pieces in single precision, summed in double.

    A piece that single precision cannot sum is summed in double precision, which takes several times as long.

    Args:
        own: a.
        received: b.
        room: a flat float32 tensor for one piece's difference; what it holds is overwritten.
    """
    # Both in the order in which a's values lie in memory, so that no view of a or of a like b is a copy.
    order = sorted(range(own.dim()), key=own.stride, reverse=True)
    ours, theirs = own.permute(order).reshape(-1), received.permute(order).reshape(-1)
    total = 0.0
    for one, other in zip(torch.split(ours, len(room)), torch.split(theirs, len(room)), strict=True):
        difference = torch.sub(one, other, out=room[: len(one)])
        squares = torch.dot(difference, difference).item()
        if not LEAST <= squares <= MOST:  # too small, too large, or not a number
            squares = torch.linalg.vector_norm(difference, dtype=torch.float64).item() ** 2
        total += squares
    return total


def too_far(client: str, part: str, norm: float, middle: float, allowed: float) -> str:
    """Why an update is refused, and what to do."""
    return (
        f"{client} sent {part} that moved by {norm:.3g}, and half of the clients moved by {middle:.3g} or "
        f"less; at most {allowed:.3g} is taken (engine.update_limit). It may have diverged or be broken: "
        "look at its pictures and labels, or raise the limit"
    )


def validate_updates(
    plan: Plan, states: States, broadcasts: Sequence[Broadcast], answers: Sequence[Answer]
) -> tuple[dict[str, list[Update]], list[Failure]]:
    """Check the answers: the valid updates, by track in client order, and the failures of the others."""
    updates: dict[str, list[Update]] = {track.name: [] for track in plan.tracks}
    failures: list[Failure] = []
    for broadcast, answer in zip(broadcasts, answers, strict=True):
        if isinstance(answer, Failure):
            failures.append(answer)
            continue
        weights = states[broadcast.track].weights
        extra = PREFIX if plan.exchange.comes_back else None
        expected = {name: weights[name].shape for name in plan.shared}
        try:
            if plan.masks is not None:
                check_update(answer, broadcast)  # what is withheld is looked at when it is summed
                answer = replace(answer, tensors=dict(answer.tensors.items()))  # others are asked before
            else:
                answer = plan.compressor.up(
                    answer, weights_for(plan, states[broadcast.track], broadcast.client)
                )
                check_update(answer, broadcast, expected, extra)
            check_trained(answer)
            if plan.bounds is not None:
                plan.bounds.refuse_training(answer)
            check_requested(answer, plan.aggregator.needs)
            plan.exchange.check(answer, states[broadcast.track].memory)
        except MessageError as error:
            failures.append(Failure(broadcast.client, broadcast.track, str(error)))
        else:
            updates[broadcast.track].append(answer)
    for track in plan.tracks:
        refused = apply_norm_bound(plan, track, states[track.name], updates[track.name])
        failures += refused
        gone = {failure.client for failure in refused}
        updates[track.name] = [update for update in updates[track.name] if update.client not in gone]
    return updates, failures


def apply_norm_bound(plan: Plan, track: Track, state: TrackState, updates: Sequence[Update]) -> list[Failure]:
    """Failures in place of updates beyond the norm bound; under masks no norm can be computed."""
    if plan.update_limit is None or plan.masks is not None:
        return []

    def received(client: str) -> Tensors:
        return plan.compressor.arrived(weights_for(plan, state, client))

    return refuse_beyond_bound(updates, received, plan.shared, track.sizes, plan.update_limit)


def check_requested(update: Update, needs: frozenset[Need]) -> None:
    """Refuse an update without what the aggregator needs, or with a value that it cannot be.

    A loss may be missing: only its client knows of how many patients its pictures are.

    Args:
        update: what arrived.
        needs: of the aggregator.

    Raises:
        MessageError: naming the client.
    """
    wanted = [CHANGE] if SQUARED_CHANGE in needs else []
    missing = [name for name in wanted if name not in update.scalars]
    if missing:
        raise MessageError(
            f"{update.client} does not report {', '.join(missing)}, which the aggregator needs; "
            "do the coordinator and this site run the same version of dermfed?"
        )
    if RECEIVED_LOSSES in needs:
        wanted += [name for name in update.scalars if name.startswith(RECEIVED)]
    negative = {name: update.scalars[name] for name in wanted if update.scalars[name] < 0}
    if negative:
        raise MessageError(f"{update.client} reports {negative}; expected nothing below 0")
