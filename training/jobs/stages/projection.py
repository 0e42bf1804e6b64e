"""The coordinator's half of the projection of several encoders: one sum of all hospitals, and components."""

import torch

from training.errors import MessageError
from training.jobs.stages.base import StageContext
from training.jobs.stages.converged import ask_sum
from training.jobs.stages.on_features import make_features
from training.messages.message import Tensors
from training.models.encoders.several import CENTRES, COMPONENTS, Encoders, principal, triangle_size
from training.rounds.requests import GRAM, MASS, MOMENTS, SUM
from training.rounds.server.ask import Traffic
from training.rounds.server.head_fit import KeptSums

KEPT = -1  # the place of the answer among a stage's sums: before those of a head


def make_projected(context: StageContext, weights: Tensors, traffic: Traffic) -> Tensors:
    """Have every client make features; of several encoders find the projection, where it is not known.

    Returns:
        The tensors of the projection by name; nothing of one encoder.

    Raises:
        QuorumError: a client cannot, or is missing in the sum.
        MessageError: the sum is not finite, or of nothing.
    """
    make_features(context, weights, traffic)
    several = context.model.encoder
    if not isinstance(several, Encoders) or bool(weights[f"{COMPONENTS}0"].any()):
        return {}
    found = find_projection(context, several, traffic)
    make_features(context, {**weights, **found}, traffic)
    return found


def find_projection(context: StageContext, several: Encoders, traffic: Traffic) -> Tensors:
    """The tensors of the projection by name, float32."""
    kept = KeptSums(context.folder, context.digest)
    shapes = {MASS: torch.Size([1])}
    for n, width in enumerate(several.widths):
        shapes |= {f"{SUM}{n}": torch.Size([width]), f"{GRAM}{n}": torch.Size([triangle_size(width)])}
    sums = kept.get(KEPT, MOMENTS)
    if sums is None:
        sums = ask_sum(context, traffic, None, MOMENTS, {}, shapes)
        if not all(torch.isfinite(tensor).all() for tensor in sums.values()):
            raise MessageError(
                "the sum of the hospitals' features has values that are not finite; look for a hospital "
                "whose encoder gives such features, or remove that encoder"
            )
        kept.put(KEPT, MOMENTS, sums)
    found: Tensors = {}
    for n, count in enumerate(several.kept):
        centre, rows = principal(float(sums[MASS]), sums[f"{SUM}{n}"], sums[f"{GRAM}{n}"], count)
        found = {**found, f"{CENTRES}{n}": centre.float(), f"{COMPONENTS}{n}": rows.float()}
    context.metrics_log.log(
        f"{context.key}: {sum(several.kept)} components of {sum(several.widths)} features are found from "
        f"{float(sums[MASS]):.0f} training pictures"
    )
    return found
