"""The model card as JSON: its numbers, its sentences, and its standing.

After Mitchell et al. 2019, "Model Cards for Model Reporting" (FAT* 2019). A card contains nothing that the
bundle does not. The names of its keys are documented in `docs/registry.md`. First the card itself, then what
it says in sentences (what the model is for, how its answers are used, what is unknown of it), then its
standing: whether anything is wrong or must be known before relying on it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, Literal

from registry.bundle.folder import Bundle
from registry.bundle.labels import UNDECLARED, kinds_of
from registry.bundle.manifest import BundleManifest, Conformal
from registry.bundle.metrics.patient import TOO_FEW
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS, probability_text
from registry.gates import Case, SpreadGate
from registry.records import Release, Version, Withdrawal

Card = Mapping[str, Any]
"""The card of one version, as `entry_json` makes it."""

CARD_SCHEMA: Final = 1
"""Raised when a key of the card goes or changes its meaning."""

PARTS: Final = ("by_subgroup", "by_class", "fairness", "differences", "intersections", "absent", "intervals")
FEW: Final = 30
"""With fewer test pictures than this a metric is marked: it can be far off."""

NEVER_REPORTS: Final = "It never reports."
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


def release_card(
    entries: Sequence[Entry],
    *,
    release: Release | None = None,
    alias: str | None = None,
    let_through: str = "",
    canary: str = "",
    prevalence: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The card of one or several bundles of one model.

    Args:
        entries: the bundles, the global one first; at least one.
        release: the release that they are; None for a version or a bundle alone.
        alias: the alias that points to the release.
        let_through: which gates it passed, in a sentence; empty where that is unknown.
        canary: what answers a share of the requests, in a sentence; empty where nothing does.
        prevalence: of malignancy at the place, by subgroup, where it was stated with the release.
    """
    return {
        "name": entries[0].manifest.model,
        "release": None if release is None else release.id,
        "alias": alias,
        **({"let_through": let_through} if let_through else {}),
        **({"canary": canary} if canary else {}),
        **({"prevalence": dict(prevalence)} if prevalence else {}),
        "served": None if release is None else _served(entries),
        "versions": [entry_json(entry) for entry in entries],
    }


def entry_json(entry: Entry) -> dict[str, Any]:
    """The card of one bundle with what the registry knows of it."""
    manifest, metrics = entry.manifest, entry.manifest.metrics
    record = manifest.model_dump(mode="json", exclude={"reference", "evaluation", "out_of_distribution"})
    rows, unfamiliar = metrics.get("by_subgroup", {}), manifest.out_of_distribution
    withdrawn = f"{entry.withdrawn.rstrip('.')}. This version must not answer any more."
    return {
        "card_schema": CARD_SCHEMA,
        "model": manifest.model,
        "version": entry.version,
        "digest": entry.digest,
        "registered": None if entry.registered is None else entry.registered.isoformat(),
        **{key: record[key] for key in ("subgroup", "labels", "picture", "file", "lineage")},
        "kinds": list(kinds_of(manifest.labels)),
        "intended_use": _intended_use(manifest),
        "how_to_use": _how_to_use(manifest),
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
            **{key: record[key] for key in ("basis", "temperature", "conformal", "triage", "conclusions")},
            "set_threshold": manifest.set_threshold,
            "expected_coverage": expected_coverage(manifest.conformal),
        },
        "out_of_distribution": _unfamiliar(manifest),
        **({"withdrawn": entry.withdrawn} if entry.withdrawn else {}),
        **({"alarms": list(entry.alarms)} if entry.alarms else {}),
        "limits": [
            *([withdrawn] if entry.withdrawn else []),
            *(f"{one}." for one in entry.alarms),
            *_limits(manifest),
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
            }
        )
    return {"case": manifest.case.model_dump(mode="json"), "patterns": patterns}


def percent(share: float) -> str:
    """A share in percent: 0.1 as `10 %`."""
    return f"{round(100 * share, 4):g} %"


def _intended_use(manifest: BundleManifest) -> dict[str, Any]:
    """What the model is for: `purpose`, `users`, `population`, and `not_for` as a list of sentences."""
    given = "one picture of one lesion"
    if manifest.case is not None:
        given = "pictures of one lesion, and what else is known of it,"
    return {
        "purpose": f"Research into decision support for skin lesions. From {given} it gives a probability "
        "for each disease it knows, for a clinician who examines the patient.",
        "users": "Clinicians and researchers who know its limits. It is never the only ground of a decision.",
        "population": _population(manifest),
        "not_for": list(_not_for(manifest)),
    }


def _population(manifest: BundleManifest) -> str:
    subgroup = manifest.subgroup
    if subgroup.is_global:
        return "Everybody whose skin tone has no model of its own, or is not declared."
    represented = {
        scale: [tone for tone in tones if manifest.represents(subgroup, tone, scale)]
        for scale, tones in subgroup.by_scale.items()
    }
    declared = [f"on the scale {scale} is {', '.join(seen)}" for scale, seen in represented.items() if seen]
    if not declared:
        return "Nobody: no skin tone has enough patients in the calibration."
    return f"People whose declared skin tone {', or '.join(declared)}."


def _not_for(manifest: BundleManifest) -> Iterator[str]:
    names = ", ".join(label.name for label in manifest.labels)
    yield "It is no medical device, and nothing here is a clinical validation."
    yield "Not for a diagnosis without a clinician, and not for telling a patient that a lesion is harmless."
    yield f"Not for other diseases than {names}: it answers with one of these whatever the picture shows."
    yield (
        "The bundle does not say which cameras or dermatoscopes, ages and parts of the body it was trained "
        "on: use on any of them is unproven until it has been tested there."
    )
    if missing := ", ".join(one.called for one in manifest.claimed_tones if one.calibration is None):
        yield f"Not for skin tone {missing}: too few patients of it, or none, were in the calibration."
    if not manifest.subgroup.is_global:
        yield (
            "Not for other or undeclared skin tones: asked about one, it answers with every disease in the "
            "set and promises nothing."
        )


def _how_to_use(manifest: BundleManifest) -> dict[str, str]:
    """How to read each part of an answer: `report`, `refer`, `prediction_set`, `malignancy`, `unfamiliar`."""
    refer = (
        "No conclusion is sure enough: a clinician judges the lesion. Triage says who has to be seen first; "
        "a referral by itself says nothing about how dangerous the lesion is."
    )
    if manifest.refers_all:
        refer = (
            "Every picture is referred to a clinician: the model was never calibrated, or of no conclusion "
            "the share of wrong ones was shown to be low enough."
        )
    unfamiliar = "A picture unlike those it was trained on is answered like any other."
    if (found := manifest.out_of_distribution) is not None and found.threshold is not None:
        unfamiliar = (
            "A picture unlike those it was trained on is referred with a warning; so are "
            f"{percent(found.rate)} of known ones at most, on average. An unknown disease that looks like a "
            "known one is not noticed."
        )
    return {
        "report": _report(manifest),
        "refer": refer,
        "prediction_set": _prediction_set(manifest.conformal),
        "malignancy": _malignancy(manifest),
        "triage": _triage(manifest),
        "unfamiliar": unfamiliar,
    }


def _report(manifest: BundleManifest) -> str:
    if manifest.refers_all:
        return NEVER_REPORTS
    rules = manifest.conclusions
    named = {(node.level, node.code): node.name for node in manifest.tree.nodes}
    nodes = "; ".join(
        f"{named[one.level, one.code]} from "
        f"{probability_text(LOGIT_BINS.lower(one.threshold_bin))} on, wrong of {one.wrong} of {one.n} "
        f"calibration lesions, at most {percent(round(one.risk_high, 3))} of new ones"
        for one in rules.nodes
    )
    return (
        "Something is concluded, at the finest level that is sure: "
        f"{nodes or 'by the rules of each pattern'}. At most {percent(rules.target_risk)} of each conclusion "
        f"may be wrong (with {percent(rules.level)} confidence, of all together). A clinician may weigh it."
    )


def _prediction_set(conformal: Conformal) -> str:
    n, coverage = conformal.n, percent(1 - conformal.alpha)
    if conformal.guarantee == "none":
        return f"The set holds every disease and promises nothing: calibrated on {n} lesions, too few."
    whom = "for everybody together, not for each skin tone"
    if conformal.guarantee == "subgroup":
        whom = "for the skin tones it is for"
    return (
        f"The set holds the true disease of at least {coverage} of lesions, {whom}. This holds on average "
        f"over calibration splits, for lesions drawn like the {n} it was calibrated on; it is no probability "
        "for one patient. Diseases outside the set are not ruled out."
    )


def _malignancy(manifest: BundleManifest) -> str:
    malignant = ", ".join(one.name for one in manifest.labels if one.malignancy == "malignant")
    others = ", ".join(one.name for one in manifest.labels if one.malignancy in ("premalignant", "unknown"))
    if not malignant:
        return "No disease is labelled malignant, so there is no malignancy probability."
    text = f"The summed probability of {malignant}."
    if others:
        text += f" {others}: not malignant for certain, so not counted in it."
    if (point := manifest.working_point) is None:
        return text
    low, level = percent(round(point.sensitivity_low, 3)), percent(point.level)
    missed = "" if point.reached else f", too few to show the {percent(point.target)} that were asked for"
    return (
        f"{text} From {probability_text(LOGIT_BINS.lower(point.threshold_bin))} on a lesion is suspicious: "
        f"at least {low} of malignant lesions are (with {level} confidence, chosen on {point.n} of "
        f"them{missed}). Such a lesion is never ruled out."
    )


def _triage(manifest: BundleManifest) -> str:
    if (rules := manifest.triage) is None:
        return "It does not say who has to be seen first, and rules nothing out."
    urgent, ruled_out = "Nothing is urgent: too few lesions show so few false alarms.", "Nothing is ruled out"
    if rules.urgent_from < SCORE_BINS:
        urgent = (
            f"Urgent from {probability_text(LOGIT_BINS.lower(rules.urgent_from))} of malignancy on: at most "
            f"{percent(rules.false_alarms)} of lesions that are not malignant."
        )
    if rules.ruled_out_below:
        below = probability_text(LOGIT_BINS.lower(rules.ruled_out_below))
        whom = "where no skin tone is declared"
        if not manifest.subgroup.is_global:
            whom = "for declared skin tones that it was calibrated on"
        ruled_out = f"Ruled out below {below}, {whom}"
    kinds = "; ".join(
        f"{one.kind} {one.missed} of {one.n}, at most {percent(round(one.high, 3))}" for one in rules.kinds
    )
    return (
        f"{urgent} {ruled_out}: of each kind of malignancy at most {percent(rules.missed)} may be missed "
        f"(with {percent(rules.level)} confidence). Missed in calibration: {kinds or TOO_FEW}. The rest is "
        "routine."
    )


def _limits(manifest: BundleManifest) -> Iterator[str]:
    """What is true of every model, then what is unknown, untested or too small of this one."""
    yield (
        "The figures are of one test split, of the clients it was trained at. Another hospital, camera or "
        "population can give others."
    )
    if (unfamiliar := manifest.out_of_distribution) is None:
        yield "On how many pictures it was trained is not in the bundle."
    else:
        yield (
            f"It was trained on at least {unfamiliar.trained_on:,} pictures, in the classes that have a "
            "Gaussian; on how many in all is not in the bundle."
        )
    yield from _limits_of_test(manifest)
    yield from _limits_of_calibration(manifest)
    yield "Maps of where the model looked, where a service shows them, are not validated."


def _limits_of_test(manifest: BundleManifest) -> Iterator[str]:
    metrics = manifest.metrics
    rows = metrics.get("by_subgroup", {})
    if not metrics:
        yield "The bundle holds no test figures: how well it answers is unknown."
    elif not rows:
        yield "The bundle holds no figures by subgroup: whether it serves all skin tones alike is unknown."
    if absent := ", ".join(metrics.get("absent", ())):
        yield f"No test pictures of {absent}: how it serves them is unknown."
    if n := rows.get(UNDECLARED, {}).get("n"):
        yield f"{n} test pictures of undeclared skin tone count in every total and in no comparison."
    for kind, part in (("subgroups", rows), ("diseases", metrics.get("by_class", {}))):
        counted = {name: row.get("n") for name, row in part.items()}
        if few := ", ".join(f"{name} ({n})" for name, n in counted.items() if n is not None and n < FEW):
            yield f"Fewer than {FEW} test pictures, so that figures can be far off, of the {kind} {few}."
        if unknown := ", ".join(name for name, n in counted.items() if n is None):
            yield f"On how many pictures these {kind} were tested is unknown: {unknown}."
    if manifest.reference is not None and (smallest := manifest.reference.smallest_cell) >= 2:
        yield (
            f"Scores of fewer than {smallest} patients of a hospital and skin tone are counted together, so "
            "that AUROC, ECE and AURC of small groups are coarse, and drift is measured by coarse bins; "
            "accuracies, coverage and what is referred are exact."
        )
    if any(ends for row in (*rows.values(), metrics) for ends in row.get("intervals", {}).values()):
        yield (
            "Intervals are of 95 %, for the chance of which lesions came into the test split; they do not "
            "contain what training again would change."
        )
    elif metrics:
        yield "No figure has an interval: how sure they are is unknown."
    if not metrics.get("intersections"):
        yield "No figures by sex, age or site in a subgroup: whether it serves those alike is unknown."
    if not metrics.get("differences"):
        yield "No test of differences between subgroups: whether they are more than chance is unknown."


def _limits_of_calibration(manifest: BundleManifest) -> Iterator[str]:
    n, unfamiliar = manifest.temperature.n, manifest.out_of_distribution
    if not n:
        yield "Its probabilities were calibrated on no pictures: do not read them as frequencies."
    elif manifest.temperature.shrunk:
        yield f"Its temperature was drawn towards that of everybody: it was calibrated on only {n} pictures."
    if manifest.conformal.guarantee == "none":
        yield "Its prediction sets promise no coverage."
    elif manifest.basis == "cross-fitted":
        yield (
            "Its guarantees are cross-fitted: exact for models trained without a part of the lesions each, "
            "and nominal for this one, which was trained on all. Read them together with the test counts."
        )
    if manifest.refers_all:
        yield "It refers every picture."
    if unfamiliar is None:
        yield "It does not notice pictures unlike those it was trained on, such as of an unknown disease."
        return
    if unfamiliar.threshold is None:
        yield f"It calls no picture unfamiliar: {unfamiliar.n} calibration lesions were too few to say which."
    if codes := ", ".join(label.code for label in manifest.labels if label.code not in unfamiliar.classes):
        yield f"Pictures of {codes} may be called unfamiliar: too few were there to know them by."


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
class SiteStatus:
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


def standing(card: Mapping[str, Any]) -> SiteStatus:
    """The standing of what `release_card` gives."""
    return SiteStatus(tuple(sorted(_matters(card), key=lambda one: not one.wrong)))


def _matters(card: Mapping[str, Any]) -> Iterator[Matter]:
    versions = card["versions"]

    def among(is_so: Callable[[Card], bool]) -> str:
        return ", ".join(called(one) for one in versions if is_so(one))

    if gone := among(lambda one: "withdrawn" in one):
        yield Matter(f"Withdrawn: {gone}.", "Promote another; it must not answer any more.", wrong=True)
    if unknown := among(lambda one: not one["metrics"] and not one["by_subgroup"]):
        text = f"Without test figures: {unknown}. How well it answers is unknown."
        yield Matter(text, "Test it before it answers.")
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
