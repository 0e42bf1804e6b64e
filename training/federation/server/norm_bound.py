"""Refuse an update that goes much farther than the others of its round.

Of each update's two parts, parameters and normalisation statistics, the norm of the difference to what the
client was sent is compared with the others': client c is refused where

    ‖θ_c − θ^t‖₂ > limit · median_i ‖θ_i − θ^t‖₂ · max(1, n_c / median_i n_i)

over all clients i that answered about this model, n being the training pictures that each told in the census:
whoever has more of them takes more steps. The median is the lower one of two, so that it is an honest
client's as long as fewer than half of three or more are not. With fewer than three answers nobody can be told
apart, and where most do not move at all (a median of 0) there is nothing to compare with.

It catches what is broken or crude, an update multiplied by a hundred; not one that is made to look like
others.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median_low

import torch
from torch import Tensor

from training.algorithms.sync import BUFFERS
from training.messages.message import Failure, Tensors, Update

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
                reason = told(client, part, norm, middle, allowed)
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


def told(client: str, part: str, norm: float, middle: float, allowed: float) -> str:
    """Why an update is refused, and what to do."""
    return (
        f"{client} sent {part} that moved by {norm:.3g}, and half of the clients moved by {middle:.3g} or "
        f"less; at most {allowed:.3g} is taken (engine.update_limit). It may have diverged or be broken: "
        "look at its pictures and labels, or raise the limit"
    )
