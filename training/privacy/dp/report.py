"""The privacy report of a run: what was masked, and which (ε, δ) its noise gives."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.algorithms.objectives.dp_sgd import DELTA
from training.privacy.dp.accountant import EPSILON, RELEASES, epsilon, largest_by_client
from training.privacy.settings import PrivacyConfig

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
