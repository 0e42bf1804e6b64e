"""The card as JSON: one object for each bundle, and one around those of a release.

The names are documented in `docs/registry.md` and stay; new ones may be added.

What a model of cases takes, and what calibration found for each pattern of what is given, on the card.

Who answers whom in a release, and how well: each skin tone with the version that is for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any, Final

from registry.bundle.counts.score_bins import probability_text
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import BundleManifest, Conformal, OutOfDistribution
from registry.card.sections import cell, tested_on, title
from registry.card.sentences import (
    UNKNOWN,
    count_of,
    how_to_use,
    intended_use,
    is_difference,
    limits,
    names_of,
    not_understood,
    number_of,
    overall,
    percent,
    rows_of,
    trained_at_least,
)
from registry.gates import Case, SpreadGate
from registry.records import Release, Version, Withdrawal
from registry.rendering import Cell, Row, Table


def cases_json(manifest: BundleManifest) -> dict[str, Any]:
    """`case` and `patterns` of a card; nothing for a model of single pictures."""
    if manifest.case is None:
        return {}
    patterns = []
    for rules in manifest.patterns:
        under = manifest.under(rules.pattern)
        patterns.append(
            {
                **rules.model_dump(mode="json"),
                "pattern": rules.pattern.name,
                "set_threshold": under.set_threshold,
                "confidence_threshold": under.report_threshold,
            }
        )
    return {"case": manifest.case.model_dump(mode="json"), "patterns": patterns}


def taken(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the model takes, as facts of the page; nothing for a model of single pictures."""
    case = card.get("case")
    if case is None:
        return []
    facts = [f"{fact['name']} ({_allowed(fact)})" for fact in case["facts"]]
    return [
        ("Pictures of a lesion", f"1 to {case['slots']}"),
        ("Kinds that it was trained on", ", ".join(case["kinds"]) or "none in particular"),
        ("Facts, each of which may be missing", "; ".join(facts) or "none"),
    ]


def patterns(card: Mapping[str, Any]) -> Table | None:
    """What calibration found for each pattern."""
    rows = tuple(
        Row(
            one["pattern"],
            (
                Cell(one["conformal"]["guarantee"]),
                Cell(f"{one['conformal']['n']:,}"),
                Cell(UNKNOWN if one["set_size"] is None else f"{one['set_size']:.2f}"),
                Cell(UNKNOWN if one["reported"] is None else percent(round(one["reported"], 3))),
                Cell(probability_text(one["confidence_threshold"])),
            ),
        )
        for one in card.get("patterns", ())
    )
    if not rows:
        return None
    return Table(
        "patterns",
        "What is given, and how sure the model then is",
        ("Given", "Promised", "Lesions", "Classes in a set", "Reported", "Reported from"),
        rows,
        "For anything else nothing is promised. Context is all facts, some context some of them.",
    )


def _allowed(fact: Mapping[str, Any]) -> str:
    if fact["kind"] == "number":
        return f"{fact['low']:g} to {fact['high']:g} {fact['unit']}".strip()
    return ", ".join(fact["values"])


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


FIRST: Final = ("malignant_sensitivity", "malignant_specificity", "malignancy_auroc", "auroc")
"""What is asked first of a model, by skin tone; the last where the one before it is not there."""

THEN: Final = ("sensitivity_at_threshold", "specificity_at_threshold")
"""The same at the working point, where it has one."""

AnsweringRow = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A skin tone, the card of the version that answers for it, and its test figures there."""


def answering(versions: Sequence[Mapping[str, Any]]) -> Iterator[AnsweringRow]:
    """Each skin tone that has test figures, with those of the version that answers for it.

    Args:
        versions: the cards of a release's versions, the one for everybody first.
    """
    everybody = versions[0]
    own = {one["subgroup"]["name"]: one for one in versions[1:]}
    names = dict.fromkeys(
        [*everybody["by_subgroup"], *(name for name, one in own.items() if name in one["by_subgroup"])]
    )
    for name in names:
        version = own.get(name, everybody)
        if name in version["by_subgroup"]:
            yield name, version, version["by_subgroup"][name]


def key_figures(versions: Sequence[Mapping[str, Any]]) -> Table | None:
    """Sensitivity, specificity and AUROC of each skin tone; None where no figure of them is known."""
    rows = list(answering(versions))
    known = [
        name for name in (*FIRST, *THEN) if any(number_of(row.get(name)) is not None for *_, row in rows)
    ]
    columns = [name for name in known if name != "auroc" or "malignancy_auroc" not in known]
    if not columns:
        return None
    return Table(
        "key",
        "How well it answers, by skin tone",
        ("Skin tone", *map(title, columns), "Test pictures"),
        tuple(
            Row(name, (*(cell(row, column) for column in columns), tested_on(row)), named(version))
            for name, version, row in rows
        ),
        "On test pictures, with 95 % intervals; each skin tone with the version that answers for it.",
    )


def named(version: Mapping[str, Any]) -> str:
    """A version as a sentence calls it: by its number, or by its subgroup where it is in no registry."""
    name = version["subgroup"]["name"]
    return (
        f"the bundle for {name}" if version["version"] is None else f"version {version['version']} ({name})"
    )
