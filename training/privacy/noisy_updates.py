"""Differential privacy of updates: clipping and noise at the client, its account, and the report of a run.

Of the update Δ = θ_c − θ^t over all that travels, as one vector,

    Δ ← Δ min(1, S / ‖Δ‖₂) + N(0, σ²),   σ = z S       (`noise: each`)
                                         σ = z S / √k   (`noise: together`, k hospitals at least in each sum)

leaves the client, as θ^t + Δ (McMahan et al. 2018, Algorithm 1, at the client). Clients are neighbours when
one of them adds its update or nothing, so the sensitivity of an update is S, and that of the mean of n equal
ones S / n. With `together` the noise of k clients adds up to z S in the sum.

An account lies in the client's own store and goes only forward: a round that is done again after a kill, with
noise drawn again, counts again. It is of one run: what other jobs took from the same pictures is not in it.
It is by Rényi differential privacy (Mironov 2017; subsampled: Mironov et al. 2019; conversion: Balle et al.
2020, Theorem 21), computed by Opacus.

Departures: clipping and noise are at the client, in this code and in no filter of a transport; no
amplification is claimed for the drawing of clients, since the cohort follows from the job's seed and is in
the log. Losses and other numbers of the training do not leave, for the account does not cover them.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import sqrt
from typing import Any, Final

import torch
from torch import Tensor

from training.algorithms.client import Client, State
from training.algorithms.objectives.dp_sgd import DELTA, NOISE, RATE, STEPS
from training.errors import DataError, JobError
from training.messages import Tensors, Update
from training.privacy.settings import PrivacyConfig
from training.randomness import NoiseSource

RELEASES: Final = "private_releases"
EPSILON: Final = "private_epsilon"
UPDATES, PICTURES = "privacy/updates", "privacy/pictures"  # in the client's store
COUNT = "entries"  # how often an account was written, which orders its files
LAST = 2**31 - 1  # after every round
WHOLE = (*range(2, 64), *range(64, 257, 32))
SAMPLED_ORDERS = (1.125, 1.25, 1.5, 1.75, 2.5, 3.5, *WHOLE)  # broken and large ones take long to compute
ORDERS = (*(1 + part / 20 for part in range(1, 200)), *WHOLE, *(2**power for power in range(9, 21)))


def epsilon(steps: Sequence[tuple[float, float, int]], delta: float) -> float:
    """ε at δ of Gaussian mechanisms one after another.

    Args:
        steps: noise multiplier, sampling rate and how often, of each kind of step.
        delta: δ.
    """
    return _epsilon(tuple(sorted(steps)), delta)


@lru_cache(maxsize=256)
def _epsilon(steps: tuple[tuple[float, float, int], ...], delta: float) -> float:
    try:
        from opacus.accountants.analysis import rdp
    except ImportError as error:
        raise JobError(
            "an account of differential privacy needs Opacus; install it with `pip install dermfed[privacy]`"
        ) from error
    orders = list(ORDERS if all(rate == 1 for _, rate, _ in steps) else SAMPLED_ORDERS)
    spent = sum(rdp.compute_rdp(q=q, noise_multiplier=z, steps=n, orders=orders) for z, q, n in steps)
    with warnings.catch_warnings():
        # Where the least or the largest order is the best of them, ε is a bound still.
        warnings.filterwarnings("ignore", message="Optimal order")
        found, _ = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=delta)
    return float(found)


def count_release(client: Client) -> int:
    """How many noisy updates this client has released, this one included; saved before it leaves."""
    entries = read_account(client, UPDATES)
    releases = int(entries.get(RELEASES, 0)) + 1
    write_account(client, UPDATES, {RELEASES: float(releases)})
    return releases


def note_steps(update: Update, client: Client) -> Update:
    """An update of private steps with the ε of all that its client took so far; saved before it leaves."""
    scalars = update.scalars
    entries = dict(read_account(client, PICTURES))
    kind = f"{scalars[NOISE]!r} {scalars[RATE]!r}"
    entries[kind] = entries.get(kind, 0.0) + scalars[STEPS]
    write_account(client, PICTURES, entries)
    kinds = {name: name.split() for name in entries if name != COUNT}
    steps = [(float(z), float(q), int(entries[name])) for name, (z, q) in kinds.items()]
    return replace(update, losses={}, scalars={**scalars, EPSILON: epsilon(steps, scalars[DELTA])})


def read_account(client: Client, account: str) -> Mapping[str, float]:
    """Read one of a client's accounts."""
    kept = client.store.load(client.id, account, LAST)
    return {} if kept is None else kept.scalars


def write_account(client: Client, account: str, entries: Mapping[str, float]) -> None:
    """Save one of a client's accounts."""
    count = read_account(client, account).get(COUNT, 0.0) + 1
    client.store.save(client.id, account, int(count), State({}, {**entries, COUNT: count}))


def largest_by_client(lines: Sequence[Mapping[str, Any]], scalar: str) -> dict[str, float]:
    """The largest value that each client reported, from the log of a run."""
    largest: dict[str, float] = {}
    for line in lines:
        for model in line.get("models", {}).values():
            for client, scalars in model.get("scalars", {}).items():
                if scalar in scalars:
                    largest[client] = max(largest.get(client, 0.0), scalars[scalar])
    return largest


def privatise(update: Update, received: Tensors, client: Client, privacy: PrivacyConfig) -> Update:
    """The update, clipped and with noise; its release is counted first.

    Raises:
        DataError: when it is not finite.
    """
    config = privacy.client_level
    assert config is not None, "asked only where the job says so"
    differences = {name: value.double() - received[name].double() for name, value in update.tensors.items()}
    if not differences:
        return replace(update, losses={}, scalars={})
    clipped = clip(differences, config.clip, client.id)
    secure = privacy.secure_aggregation
    sharers = secure.fewest if secure is not None and config.noise == "together" else 1
    deviation = config.noise_multiplier * config.clip / sqrt(sharers)
    releases = count_release(client)
    source = NoiseSource()
    tensors = {
        name: (received[name].double() + value + source.normal(value, deviation)).to(
            update.tensors[name].dtype
        )
        for name, value in clipped.items()
    }
    return replace(update, tensors=tensors, losses={}, scalars={RELEASES: float(releases)})


def clip(differences: Tensors, largest: float, client: str) -> dict[str, Tensor]:
    """Δ min(1, S / ‖Δ‖₂) over all tensors together, in double precision.

    Raises:
        DataError: when they are not finite: nothing may be disclosed of them.
    """
    norm = float(torch.sqrt(sum((value.square().sum() for value in differences.values()), torch.zeros(()))))
    if norm != norm or norm == float("inf"):
        raise DataError(f"{client} diverged: its update is not finite; lower objective.optimizer.lr")
    factor = min(1.0, largest / norm) if norm else 1.0
    return {name: value * factor for name, value in differences.items()}


AGAINST = {
    "each": "whoever sees every update, the coordinator too",
    "together": "whoever sees sums of updates, as masks leave them to the coordinator",
}

NO_NOISE: Mapping[str, Any] = {}


def privacy_facts(
    config: PrivacyConfig, lines: Sequence[Mapping[str, Any]], noise: Mapping[str, Any] = NO_NOISE
) -> dict[str, Any]:
    """The block `privacy` of `summary.json`; empty where neither masks nor noise were used.

    Args:
        config: the job's.
        lines: of `metrics.jsonl`.
        noise: what there is to say of noise on counts, by split.
    """
    facts: dict[str, Any] = {}
    if config.secure_aggregation is not None:
        facts["secure_aggregation"] = config.secure_aggregation.model_dump(mode="json")
    if config.client_level is not None:
        level, releases = config.client_level, largest_by_client(lines, RELEASES)
        most = int(max(releases.values(), default=0))
        facts["client_level"] = {
            **level.model_dump(mode="json"),
            "protects": "whether a client took part, by the weights that it sent",
            "against": AGAINST[level.noise],
            "releases": {client: int(count) for client, count in releases.items()},
            "epsilon": epsilon([(level.noise_multiplier, 1.0, most)], level.delta) if most else 0.0,
        }
    spent = largest_by_client(lines, EPSILON)
    if spent:
        facts["picture_level"] = {
            "protects": "whether one picture was trained on, by the weights that its client sent",
            "against": "whoever sees every update, the coordinator too",
            "epsilon_by_client": spent,
            "epsilon": max(spent.values()),
            "delta": max(largest_by_client(lines, DELTA).values()),
        }
    if "client_level" in facts or "picture_level" in facts:
        counts = "" if noise else "counts of predictions, "
        facts["not_covered"] = f"numbers of pictures, {counts}and other jobs on the same pictures"
    if noise:
        sharers = config.noise_sharers
        facts["counts"] = {
            "epsilon": config.counts.epsilon,
            "delta": config.counts.delta,
            "evaluations": config.counts.evaluations,
            "protects": "what the models answered for one patient, by the counts that hospitals sent",
            "against": "whoever sees every answer, the coordinator too"
            if sharers == 1
            else f"whoever sees sums of {sharers} hospitals or more, of which none tells its own noise",
            "not_covered": "how many pictures of each class and subgroup a hospital has, what was learned "
            "from training pictures, and other runs on the same pictures",
            "by_split": dict(noise),
        }
    return facts


def privacy_text(facts: Mapping[str, Any]) -> list[str]:
    """The privacy facts of a run as sentences, for the report."""
    sentences: list[str] = []
    if "secure_aggregation" in facts:
        masked = facts["secure_aggregation"]
        what = "weights and counts" if masked["counts"] else "weights"
        sentences.append(
            f"Clients sent {what} under masks: the coordinator learned sums of {masked['fewest']} hospitals "
            "or more, and no single client's. Losses and numbers of pictures were sent in the clear."
        )
    for name, noise in (("client_level", "Updates"), ("picture_level", "Gradients of single pictures")):
        if name in facts:
            block = facts[name]
            sentences.append(
                f"{noise} were clipped and noised: ({block['epsilon']:.3g}, {block['delta']:g})-differential "
                f"privacy of {block['protects']}, against {block['against']}."
            )
    if "not_covered" in facts:
        sentences.append(f"Not covered by this: {facts['not_covered']}.")
    if "counts" in facts:
        counts = facts["counts"]
        wide = ", ".join(f"{of['deviation']:.3g} in {split}" for split, of in counts["by_split"].items())
        sentences.append(
            f"Counts of one picture per patient were told with noise, of standard deviation {wide}: "
            f"({counts['epsilon']:g}, {counts['delta']:g})-differential privacy of {counts['protects']} in "
            f"each split, against {counts['against']}. Not covered by this: {counts['not_covered']}. "
            "Intervals contain the noise. Of scores one coarse histogram is told, so that calibration error, "
            "average precision and curves of risk are missing."
        )
    return sentences
