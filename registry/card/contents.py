"""The card as JSON: one object for each bundle, and one around those of a release.

The names are documented in `docs/registry.md` and stay; new ones may be added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest.schema import BundleManifest, Conformal, OutOfDistribution
from registry.card.cases import cases_json
from registry.card.figures import count_of, is_difference, names_of, not_understood, overall, rows_of
from registry.card.limits import limits, trained_at_least
from registry.card.use import how_to_use, intended_use
from registry.gates import Case, SpreadGate
from registry.records import Release, Version, Withdrawal

CARD_SCHEMA = 1
"""Raised when a name of the card goes or means something else."""


@dataclass(frozen=True)
class Entry:
    """One bundle and what is known of it.

    Attributes:
        manifest: what `bundle.json` says.
        digest: the bundle's digest.
        version: its number in a registry; None for a bundle that is in none.
        registered: when it was added there.
        withdrawn: that it was withdrawn, when and why; empty where it was not.
        alarms: the open alarms of the field about it, a sentence without its full stop each.
    """

    manifest: BundleManifest
    digest: str
    version: int | None = None
    registered: datetime | None = None
    withdrawn: str = ""
    alarms: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        version: Version,
        manifest: BundleManifest,
        withdrawal: Withdrawal | None = None,
        alarms: Sequence[str] = (),
    ) -> "Entry":
        """The entry of a registered version, of its withdrawal where it was withdrawn, and of open alarms."""
        withdrawn = "" if withdrawal is None else str(withdrawal)
        return cls(manifest, version.digest, version.number, version.created, withdrawn, tuple(alarms))

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> "Entry":
        """The entry of a bundle in a folder."""
        return cls(bundle.manifest, bundle.digest)


def card_json(manifest: BundleManifest) -> dict[str, Any]:
    """The card of one bundle, ready for JSON; its figures may be in any form."""
    return entry_json(Entry(manifest, bundle_digest(manifest)))


def entry_json(entry: Entry) -> dict[str, Any]:
    """The card of one bundle with what the registry knows of it."""
    manifest, metrics = entry.manifest, entry.manifest.metrics
    said = manifest.model_dump(mode="json", exclude={"reference", "metrics", "out_of_distribution"})
    fairness, intersections = metrics.get("fairness"), metrics.get("intersections")
    return {
        "card_schema": CARD_SCHEMA,
        "model": manifest.model,
        "version": entry.version,
        "digest": entry.digest,
        "registered": None if entry.registered is None else entry.registered.isoformat(),
        "subgroup": said["subgroup"],
        "intended_use": intended_use(manifest),
        "how_to_use": how_to_use(manifest),
        "labels": said["labels"],
        "picture": said["picture"],
        "data": _data(manifest),
        "metrics": overall(metrics),
        "intervals": _mapping(metrics.get("intervals")),
        "by_subgroup": rows_of(metrics.get("by_subgroup")),
        "by_class": rows_of(metrics.get("by_class")),
        "fairness": _mapping(fairness),
        "differences": _differences(metrics.get("differences")),
        "intersections": _mapping(intersections),
        "tones": [asdict(one) for one in manifest.claimed_tones],
        "calibration": {
            **{key: said[key] for key in ("basis", "temperature", "conformal", "abstention")},
            "set_threshold": manifest.set_threshold,
            "confidence_threshold": manifest.report_threshold,
            "expected_coverage": expected_coverage(manifest.conformal),
        },
        "out_of_distribution": familiarity(manifest.out_of_distribution),
        **({"withdrawn": entry.withdrawn} if entry.withdrawn else {}),
        **({"alarms": list(entry.alarms)} if entry.alarms else {}),
        "limits": [*_withdrawn(entry), *(f"{one}." for one in entry.alarms), *limits(manifest)],
        "not_understood": not_understood(metrics),
        "file": said["file"],
        **cases_json(manifest),
        "lineage": said["lineage"],
        "measured_by": None if manifest.attestation is None else manifest.attestation.fingerprint,
    }


def _withdrawn(entry: Entry) -> list[str]:
    if not entry.withdrawn:
        return []
    return [f"{entry.withdrawn.rstrip('.')}. Nobody may be answered by this version any more."]


def release_card(
    entries: Sequence[Entry],
    *,
    release: Release | None = None,
    alias: str | None = None,
    let_through: str = "",
    canary: str = "",
) -> dict[str, Any]:
    """The card of one or several bundles of one model, ready for JSON.

    Args:
        entries: the bundles, the one for everybody first; at least one.
        release: the release that they are; None for a version or a bundle alone.
        alias: the alias that points to the release.
        let_through: by which gates it was let through, in a sentence; empty where that is not told.
        canary: what answers a share beside it, in a sentence; empty where nothing does.
    """
    return {
        "name": entries[0].manifest.model,
        "release": None if release is None else release.id,
        "alias": alias,
        **({"let_through": let_through} if let_through else {}),
        **({"canary": canary} if canary else {}),
        "served": None if release is None else served(entries),
        "versions": [entry_json(entry) for entry in entries],
    }


def served(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the gate `spread` measures on a release: each subgroup with the version that answers for it."""
    result = SpreadGate().judge(Case(tuple(entry.manifest for entry in entries)))
    return {
        "value": result.value,
        "interval": None if result.interval is None else list(result.interval),
        "best": None if result.best is None else result.best.model_dump(mode="json"),
        "worst": None if result.worst is None else result.worst.model_dump(mode="json"),
        "untested": list(result.untested),
    }


def expected_coverage(conformal: Conformal) -> float | None:
    """ceil((n + 1)(1 - alpha)) / (n + 1), the least coverage to expect; None without a promise."""
    if conformal.guarantee == "none":
        return None
    rank = ceil((conformal.n + 1) * (1 - Fraction(str(conformal.alpha))))
    return rank / (conformal.n + 1)


def familiarity(found: OutOfDistribution | None) -> dict[str, Any] | None:
    """How pictures unlike those trained on are noticed, without the numbers that only a program reads."""
    if found is None:
        return None
    return {**found.model_dump(mode="json", exclude={"means", "whitening"}), "threshold": found.threshold}


def _data(manifest: BundleManifest) -> dict[str, Any]:
    metrics = manifest.metrics
    rows = rows_of(metrics.get("by_subgroup"))
    return {
        "clients": dict(manifest.lineage.data),
        "trained": None,
        "trained_at_least": trained_at_least(manifest),
        "calibrated": manifest.temperature.n,
        "tested": count_of(metrics.get("n")),
        "tested_by_subgroup": {name: count_of(row.get("n")) for name, row in rows.items()},
        "absent": names_of(metrics.get("absent")),
    }


def _mapping(found: object) -> dict[str, Any] | None:
    return dict(found) if isinstance(found, Mapping) else None


def _differences(found: object) -> list[Any] | None:
    if not isinstance(found, Sequence) or isinstance(found, str):
        return None
    return [one for one in found if is_difference(one)]
