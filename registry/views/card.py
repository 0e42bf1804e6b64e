"""The model card as JSON, and its standing: whether anything is wrong or has to be known.

After Mitchell et al. 2019, "Model Cards for Model Reporting" (FAT* 2019). A card contains nothing that the
bundle does not. The names of its keys are documented in `docs/registry.md`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, Literal

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import BundleManifest, Conformal
from registry.gates import Case, SpreadGate
from registry.records import Release, Version, Withdrawal
from registry.views.sentences import (
    FEW,
    NEVER_REPORTS,
    how_to_use,
    intended_use,
    limits,
)

Card = Mapping[str, Any]
"""The card of one version, as `entry_json` makes it."""

CARD_SCHEMA: Final = 1
"""Raised when a key of the card goes or changes its meaning."""

PARTS: Final = ("by_subgroup", "by_class", "fairness", "differences", "intersections", "absent", "intervals")
_READ: Final = "Read what is unknown of it, below, before relying on its answers for them."


@dataclass(frozen=True)
class Entry:
    """One bundle and what is known of it.

    Attributes:
        manifest: its `bundle.json`.
        digest: the bundle's digest.
        version: its number in a registry; None for a bundle that is in none.
        registered: when it was added there.
        withdrawn: that it was withdrawn, when and why; empty where it was not.
        alarms: its open alarms, each a sentence without its full stop.
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
        """The entry of a registered version."""
        withdrawn = "" if withdrawal is None else str(withdrawal)
        return cls(manifest, version.digest, version.number, version.created, withdrawn, tuple(alarms))

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> "Entry":
        """The entry of a bundle in a folder."""
        return cls(bundle.manifest, bundle.digest)


def card_json(manifest: BundleManifest) -> dict[str, Any]:
    """The card of one bundle."""
    return entry_json(Entry(manifest, bundle_digest(manifest)))


def release_card(
    entries: Sequence[Entry],
    *,
    release: Release | None = None,
    alias: str | None = None,
    let_through: str = "",
    canary: str = "",
) -> dict[str, Any]:
    """The card of one or several bundles of one model.

    Args:
        entries: the bundles, the global one first; at least one.
        release: the release that they are; None for a version or a bundle alone.
        alias: the alias that points to the release.
        let_through: which gates it passed, in a sentence; empty where that is unknown.
        canary: what answers a share of the requests, in a sentence; empty where nothing does.
    """
    return {
        "name": entries[0].manifest.model,
        "release": None if release is None else release.id,
        "alias": alias,
        **({"let_through": let_through} if let_through else {}),
        **({"canary": canary} if canary else {}),
        "served": None if release is None else _served(entries),
        "versions": [entry_json(entry) for entry in entries],
    }


def entry_json(entry: Entry) -> dict[str, Any]:
    """The card of one bundle with what the registry knows of it."""
    manifest, metrics = entry.manifest, entry.manifest.metrics
    record = manifest.model_dump(mode="json", exclude={"reference", "evaluation", "out_of_distribution"})
    rows, unfamiliar = metrics.get("by_subgroup", {}), manifest.out_of_distribution
    withdrawn = f"{entry.withdrawn.rstrip('.')}. Nobody may be answered by this version any more."
    return {
        "card_schema": CARD_SCHEMA,
        "model": manifest.model,
        "version": entry.version,
        "digest": entry.digest,
        "registered": None if entry.registered is None else entry.registered.isoformat(),
        **{key: record[key] for key in ("subgroup", "labels", "picture", "file", "lineage")},
        "intended_use": intended_use(manifest),
        "how_to_use": how_to_use(manifest),
        "data": {
            "clients": dict(manifest.lineage.data),
            "trained": None,
            "trained_at_least": None if unfamiliar is None else unfamiliar.trained_on,
            "calibrated": manifest.temperature.n,
            "tested": metrics.get("n"),
            "tested_by_subgroup": {name: row.get("n") for name, row in rows.items()},
            "absent": metrics.get("absent", []),
        },
        "metrics": {name: value for name, value in metrics.items() if name not in PARTS},
        "by_subgroup": rows,
        "by_class": metrics.get("by_class", {}),
        **{key: metrics.get(key) for key in ("intervals", "fairness", "intersections")},
        "differences": metrics.get("differences"),
        "tones": [asdict(one) for one in manifest.claimed_tones],
        "calibration": {
            **{key: record[key] for key in ("basis", "temperature", "conformal", "abstention")},
            "set_threshold": manifest.set_threshold,
            "confidence_threshold": manifest.report_threshold,
            "expected_coverage": expected_coverage(manifest.conformal),
        },
        "out_of_distribution": _unfamiliar(manifest),
        **({"withdrawn": entry.withdrawn} if entry.withdrawn else {}),
        **({"alarms": list(entry.alarms)} if entry.alarms else {}),
        "limits": [
            *([withdrawn] if entry.withdrawn else []),
            *(f"{one}." for one in entry.alarms),
            *limits(manifest),
        ],
        **_case(manifest),
        "measured_by": None if manifest.attestation is None else manifest.attestation.fingerprint,
    }


def _unfamiliar(manifest: BundleManifest) -> dict[str, Any] | None:
    """How unfamiliar pictures are noticed, without the matrices."""
    if (found := manifest.out_of_distribution) is None:
        return None
    return {**found.model_dump(mode="json", exclude={"means", "whitening"}), "threshold": found.threshold}


def expected_coverage(conformal: Conformal) -> float | None:
    """ceil((n + 1)(1 - alpha)) / (n + 1), the least coverage to expect; None without a guarantee."""
    if conformal.guarantee == "none":
        return None
    rank = math.ceil((conformal.n + 1) * (1 - Fraction(str(conformal.alpha))))
    return rank / (conformal.n + 1)


def _served(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the gate `spread` measures: each subgroup with the version that answers for it."""
    result = SpreadGate().judge(Case(tuple(entry.manifest for entry in entries)))
    return result.model_dump(mode="json", include={"value", "interval", "best", "worst", "untested"})


def _case(manifest: BundleManifest) -> dict[str, Any]:
    """`case` and `patterns`; neither for a model of single pictures."""
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


def answering(versions: Sequence[Card]) -> Iterator[tuple[str, Card, Mapping[str, Any]]]:
    """Each skin tone with test metrics, the version that answers for it, and its metrics there."""
    everybody = versions[0]
    own = {one["subgroup"]["name"]: one for one in versions[1:]}
    for name in dict.fromkeys([*everybody["by_subgroup"], *own]):
        version = own.get(name, everybody)
        if name in version["by_subgroup"]:
            yield name, version, version["by_subgroup"][name]


def called(version: Card) -> str:
    """A version by its number, or by its subgroup where it is in no registry."""
    name, number = version["subgroup"]["name"], version["version"]
    return f"the bundle for {name}" if number is None else f"version {number} ({name})"


@dataclass(frozen=True)
class Matter:
    """Something to know.

    Attributes:
        text: what it is, a sentence.
        todo: what to do about it, a sentence.
        wrong: whether it is wrong, and not just to be known.
    """

    text: str
    todo: str
    wrong: bool = False


@dataclass(frozen=True)
class Standing:
    """Whether anything is wrong; `matters` has the worst first."""

    matters: tuple[Matter, ...]

    @property
    def level(self) -> Literal["wrong", "look", "fine"]:
        """How bad it is."""
        if any(one.wrong for one in self.matters):
            return "wrong"
        return "look" if self.matters else "fine"

    @property
    def sentence(self) -> str:
        """The same in words."""
        wrong = sum(one.wrong for one in self.matters)
        count = wrong or len(self.matters)
        things = "one thing" if count == 1 else f"{count} things"
        if wrong:
            return f"Something is wrong: {things} to act on."
        if count:
            return f"Nothing is broken. {things[0].upper()}{things[1:]} to know before relying on it."
        return "Nothing is known to be wrong."


def standing(card: Mapping[str, Any]) -> Standing:
    """The standing of what `release_card` gives."""
    return Standing(tuple(sorted(_matters(card), key=lambda one: not one.wrong)))


def _matters(card: Mapping[str, Any]) -> Iterator[Matter]:
    versions = card["versions"]

    def among(is_so: Callable[[Card], bool]) -> str:
        return ", ".join(called(one) for one in versions if is_so(one))

    if gone := among(lambda one: "withdrawn" in one):
        yield Matter(f"Withdrawn: {gone}.", "Promote another; nobody may be answered by it.", wrong=True)
    if unknown := among(lambda one: not one["metrics"] and not one["by_subgroup"]):
        text = f"Without test figures: {unknown}. How well it answers is unknown."
        yield Matter(text, "Test it before anybody is answered by it.")
    if silent := among(lambda one: one["how_to_use"]["report"] == NEVER_REPORTS):
        todo = "Calibrate it on more pictures, or expect to see every lesion yourself."
        yield Matter(f"Refers every picture and never reports: {silent}.", todo)
    if unsure := among(lambda one: one["calibration"]["conformal"]["guarantee"] == "none"):
        yield Matter(f"Prediction sets that promise nothing: {unsure}.", "Calibrate it on more lesions.")
    for alarm in (alarm for one in versions for alarm in one.get("alarms", ())):
        todo = "Go back to the release before, or close the alarm with a reason: `dermfed-registry field`."
        yield Matter(f"{alarm[0].upper()}{alarm[1:]}.", todo, wrong=True)
    if untested := sorted({name for one in versions for name in one["data"]["absent"]}):
        yield Matter(f"Never tested on {', '.join(untested)}.", _READ)
    counted = [(name, row.get("n")) for name, _, row in answering(versions)]
    if few := [f"{name} ({n})" for name, n in counted if n is not None and n < FEW]:
        yield Matter(f"Fewer than {FEW} test pictures of {', '.join(few)}: figures can be far off.", _READ)
