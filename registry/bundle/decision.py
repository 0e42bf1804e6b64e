"""The decision on one picture, or one case: from its probabilities to the answer a clinician gets.

A pure function of the probabilities, the embedding, the manifest, the declared skin tone and the pattern of
what is given of a case, with thresholds compared in bins, so that what is decided is what was counted when
the model was tested.

- `report` if something is concluded (`registry.bundle.conclusions`), and the picture is not farther from the
  training pictures than the threshold of unfamiliarity, else `refer`. A disease that no class is for may have
  a high probability; its distance shows.
- The prediction set has every class that reaches the conformal threshold. Where none does, no class is
  credible. It is full where too few calibration pictures allow no guarantee (`guarantee: none`).
- The malignancy probability is the sum over malignant classes; premalignant ones are not in it, and
  are marked in `findings`. It is None where no class is malignant. At the working point or above the lesion
  is suspicious, and a first finding that is no malignant class comes with a warning.
- `triage` says who has to see the lesion: `urgent` where the probability of malignancy reaches the threshold
  of false alarms, else `ruled-out` where it is below the threshold under which each kind of malignancy is
  missed in few, else `routine`. Nothing is ruled out of an unfamiliar picture, of a declared skin tone that
  the version has no proof for, and of cases of a pattern that was not calibrated.
- `warnings` are what a clinician has to know besides, one sentence each.

`would_help` names what of a case is missing that would make the answer surer. Every pattern that was
calibrated says how many classes its prediction sets had and how many of its cases were reported. One more
kind of picture, or the facts that are missing, would help where the pattern with them had smaller sets or
more reports, and was behind in neither. Differences of less than a twentieth of a class and half a per cent
are none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases import UNKNOWN_KIND, GivenCase, Pattern
from registry.bundle.conclusions import Node, NodeRule
from registry.bundle.errors import GraphError
from registry.bundle.labels import Label, malignant_classes, short
from registry.bundle.manifest import BundleManifest, Guarantee, KindMissed, Triage
from registry.bundle.model import distance_bin
from registry.bundle.score_bins import (
    LOGIT_BINS,
    SCORE_BINS,
    is_suspicious,
    malignancy_probability,
    score_bin,
)

HELD_BACK: Final = (
    "The first finding is not malignant, but the probability of malignancy reaches the working point: it is "
    "not ruled out, and the picture is referred."
)


def is_for(manifest: BundleManifest, skin_tone: str | None, scale: str | None) -> bool:
    """Whether a version is for people of a skin tone: of its subgroup, and represented in its calibration."""
    subgroup = manifest.subgroup
    return subgroup.is_global or manifest.represents(subgroup, skin_tone, scale)


def _familiarity_warnings(manifest: BundleManifest, unfamiliar: bool | None) -> Iterator[str]:
    known = manifest.out_of_distribution
    if known is not None and known.threshold_bin is None:
        yield (
            "Too few pictures to tell what is unlike those the model was trained on: no picture is referred "
            "for being unfamiliar."
        )
    elif known is not None and unfamiliar:
        yield (
            f"The picture is unlike the pictures the model was trained on: {100 * known.rate:g} % or less of "
            "known pictures are as far from them. It is referred, however high a probability is."
        )


def _warnings(
    manifest: BundleManifest,
    in_set: tuple[str, ...],
    skin_tone: str | None,
    scale: str | None,
    pattern: Pattern | None,
) -> Iterator[str]:
    """What must be known of the prediction set, of the model that answered, and of the malignancy."""
    subgroup = manifest.subgroup
    full = "the prediction set holds every class and promises nothing."
    if subgroup.is_global and skin_tone is None:
        yield "No skin tone was declared: the model for all skin tones answered."
    elif subgroup.is_global:
        yield (
            f"The model for all skin tones answered; nothing is promised for skin tone {skin_tone} "
            f"({scale or 'no scale'}) by itself."
        )
    if not is_for(manifest, skin_tone, scale):
        yield (
            f"The model for skin tones {subgroup.described} answered; it was not calibrated for "
            f"{skin_tone or 'an undeclared tone'} ({scale or 'no scale'}). The {full[4:]}"
        )
    elif manifest.conformal.guarantee == "none":
        if pattern is None:
            yield f"Too few pictures to calibrate on: {full}"
        elif manifest.rules_of(pattern) is None:
            yield f"The model was not calibrated on {pattern.as_text}: {full}"
        else:
            yield f"Too few cases of {pattern.as_text} to calibrate on: {full}"
    yield from _nothing_ruled_out(manifest, skin_tone, scale, pattern)
    yield from _nothing_urgent(manifest.triage)
    if pattern is not None and UNKNOWN_KIND in pattern.kinds and manifest.case and manifest.case.kinds:
        yield (
            f"Nobody said of what kind each picture is: {' or '.join(manifest.case.kinds)}. Say it where it "
            "is known."
        )
    if not in_set:
        yield ("No class is likely enough for the prediction set: the picture is unlike those calibrated on.")
    unknown = ", ".join(label.code for label in manifest.labels if label.malignancy == "unknown")
    if unknown and malignant_classes(manifest.labels).any():
        yield f"Malignancy leaves out {unknown}: it is not known whether they are malignant."


def _nothing_ruled_out(
    manifest: BundleManifest, skin_tone: str | None, scale: str | None, pattern: Pattern | None
) -> Iterator[str]:
    """Why no lesion of this person is ruled out, where the version has triage."""
    rules = manifest.triage
    if rules is None:
        return
    if pattern is not None and manifest.rules_of(pattern) is None:
        why = f": the model was not calibrated on {pattern.as_text}"
    elif not rules.ruled_out_below:
        few = ", ".join(f"{one.kind} ({one.n})" for one in rules.kinds if one.high > rules.missed)
        shown = f"to show that at most {100 * rules.missed:g} % of it are missed"
        if rules.kinds and not few:
            why = f": no threshold is low enough {shown}, for each kind of malignancy"
        else:
            why = f": too few calibration lesions of {few or 'a kind of malignancy'} {shown}"
    elif not _is_proven(manifest, skin_tone, scale):
        of_tone = f"for skin tone {skin_tone} ({scale or 'no scale'})"
        whom = of_tone if skin_tone else "where no skin tone is declared"
        why = f" {whom}: this version has not shown what would be missed"
    else:
        return
    yield f"No lesion is ruled out{why}."


def _nothing_urgent(rules: Triage | None) -> Iterator[str]:
    if rules is not None and rules.urgent_from == SCORE_BINS:
        yield (
            f"No lesion is called urgent: {rules.n_other} calibration lesions that are not malignant do not "
            f"show a threshold that at most {100 * rules.false_alarms:g} % of them reach."
        )


def _is_proven(manifest: BundleManifest, skin_tone: str | None, scale: str | None) -> bool:
    """Whether the limits of what is ruled out hold for this person."""
    return skin_tone is None if manifest.subgroup.is_global else is_for(manifest, skin_tone, scale)


@dataclass(frozen=True)
class Finding:
    """One class with its probability."""

    label: Label
    probability: float


@dataclass(frozen=True)
class MalignancyRisk:
    """How probable it is that a lesion is malignant, and on which side of the working point that is.

    Attributes:
        probability: None where no class is malignant.
        threshold: the working point, to the resolution of a score bin; None where the bundle has none.
        above: whether the lesion is suspicious: its probability is at the threshold or above.
        sensitivity: the share of malignant test pictures that were, as `BundleManifest.counts_for` has it.
        specificity: the share of other test pictures that were not.
        n: malignant test pictures.
    """

    probability: float | None
    threshold: float | None = None
    above: bool | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    n: int | None = None


Level = Literal["urgent", "routine", "ruled-out"]


@dataclass(frozen=True)
class PredictiveValues:
    """Lower limits of what triage predicts where a share p of lesions is malignant.

    With the limits of `Triage`, each one-sided at .975, so that both of a value hold together at .95:

        negative = ruled_out_low (1 − p) / (ruled_out_low (1 − p) + missed_high p)
        positive = urgent_low p / (urgent_low p + false_alarms_high (1 − p))

    Attributes:
        prevalence: p, as stated for the place.
        negative: of lesions that are ruled out, the share that is not malignant; None where none is.
        positive: of urgent lesions, the share that is malignant; None where none is.
    """

    prevalence: float
    negative: float | None
    positive: float | None

    @classmethod
    def of(cls, rules: Triage, prevalence: float) -> "PredictiveValues":
        """What the rules predict at a prevalence."""
        others = 1 - prevalence
        negative = rules.ruled_out_low * others, rules.missed_high * prevalence
        positive = rules.urgent_low * prevalence, rules.false_alarms_high * others
        return cls(
            prevalence,
            _first_of_both(*negative) if rules.ruled_out_below else None,
            _first_of_both(*positive) if rules.urgent_from < SCORE_BINS else None,
        )

    @property
    def words(self) -> str:
        """The same as a sentence, with what is assumed."""
        found = []
        if self.negative is not None:
            found.append(f"at least {100 * self.negative:.3g} % of those ruled out are not malignant")
        if self.positive is not None:
            found.append(f"at least {100 * self.positive:.3g} % of urgent ones are malignant")
        told = " and ".join(found) or "nothing is predicted"
        return (
            f"Where {100 * self.prevalence:.3g} % of lesions are malignant, as was stated for this place, "
            f"{told}. Lesions of each class are assumed to look as in calibration."
        )


def _first_of_both(first: float, second: float) -> float:
    return first / (first + second) if first else 0.0


@dataclass(frozen=True)
class TriageAnswer:
    """Who has to see a lesion, and how surely that was shown in calibration.

    Attributes:
        level: `ruled-out`, `urgent`, or `routine`: everything else.
        guarantee: for whom the limits below were shown; `none` where not for this lesion.
        basis: as the manifest has it.
        confidence: how sure each limit is.
        missed_limit: the share of each kind of malignancy that may be ruled out.
        missed: what of each kind was; empty where a kind has too few lesions to tell of.
        false_alarms_limit: the share of lesions that are not malignant that may be urgent.
        false_alarms: of how many lesions that are not malignant how many were, and the upper limit.
        predictive: what it predicts at a stated prevalence; None without one, or without a guarantee to the
            subgroup.
    """

    level: Level
    guarantee: Guarantee
    basis: str
    confidence: float
    missed_limit: float
    missed: tuple[KindMissed, ...]
    false_alarms_limit: float
    false_alarms: tuple[int, int, float]
    predictive: PredictiveValues | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON of the service's interface."""
        n, x, high = self.false_alarms
        return {
            "guarantee": self.guarantee,
            "basis": self.basis,
            "confidence": self.confidence,
            "missed": {"limit": self.missed_limit, "kinds": [each.model_dump() for each in self.missed]},
            "false_alarms": {"limit": self.false_alarms_limit, "n": n, "seen": x, "high": high},
            "predictive": None
            if self.predictive is None
            else {**asdict(self.predictive), "words": self.predictive.words},
        }


@dataclass(frozen=True)
class Conclusion:
    """What is said of a lesion, at the finest level at which it is sure.

    Attributes:
        node: of the tree of diagnoses.
        probability: of its classes together.
        rule: how often it was wrong in calibration.
        basis: as the manifest has it.
    """

    node: Node
    probability: float
    rule: NodeRule
    basis: str

    def to_json(self) -> dict[str, Any]:
        """As JSON of the service's interface."""
        return {
            "level": self.node.level,
            "code": self.node.code,
            "name": self.node.name,
            "malignant": self.node.malignant,
            "probability": self.probability,
            "n": self.rule.n,
            "wrong": self.rule.wrong,
            "risk_high": self.rule.risk_high,
            "basis": self.basis,
        }


@dataclass(frozen=True)
class Decision:
    """The decision on one picture: report or refer, with the evidence for it.

    Attributes:
        reported: whether the answer is reported (else referred to a clinician).
        held_back: whether it is referred for its malignancy: suspicious, and its first finding not malignant.
        unfamiliar: whether the picture is unlike those trained on, and referred for it; None where the
            bundle or the caller has nothing to compare.
        findings: the classes, most probable first.
        in_set: codes in the prediction set, most probable first.
        coverage: the share of pictures whose set is meant to hold the truth.
        guarantee: for whom that is promised.
        set_calibrated_on: lesions the promise rests on.
        malignancy: how probable it is that the lesion is malignant.
        warnings: what a clinician has to know, one sentence each.
        triage: who has to see the lesion; None of a version without triage.
        conclusion: what is said of it; None where nothing is sure.
    """

    reported: bool
    held_back: bool
    unfamiliar: bool | None
    findings: tuple[Finding, ...]
    in_set: tuple[str, ...]
    coverage: float
    guarantee: Guarantee
    set_calibrated_on: int
    malignancy: MalignancyRisk
    warnings: tuple[str, ...]
    triage: TriageAnswer | None = None
    conclusion: Conclusion | None = None

    def to_json(self) -> dict[str, Any]:
        """The decision's part of a diagnosis, as JSON of the service's interface."""
        return {
            "triage": None if self.triage is None else self.triage.level,
            "triage_evidence": None if self.triage is None else self.triage.to_json(),
            "conclusion": None if self.conclusion is None else self.conclusion.to_json(),
            "decision": "report" if self.reported else "refer",
            "findings": [
                {
                    "code": finding.label.code,
                    "name": finding.label.name,
                    "malignancy": finding.label.malignancy,
                    "probability": finding.probability,
                    "coding": short(finding.label.codings),
                }
                for finding in self.findings
            ],
            "prediction_set": {
                "codes": list(self.in_set),
                "coverage": self.coverage,
                "guarantee": self.guarantee,
                "calibration_n": self.set_calibrated_on,
            },
            "malignancy": asdict(self.malignancy),
            "warnings": list(self.warnings),
        }


def decide(
    probabilities: NDArray[Any],
    manifest: BundleManifest,
    *,
    pattern: Pattern | None = None,
    embedding: NDArray[Any] | None = None,
    skin_tone: str | None = None,
    skin_tone_scale: str | None = None,
    top: int | None = None,
    prevalence: Mapping[str, float] | None = None,
) -> Decision:
    """Decides on one picture, or one case.

    Args:
        probabilities: the graph's probabilities for the picture, `(classes,)`.
        manifest: of the bundle that gave them.
        pattern: what is given of a case; its rules decide. None for a model of single pictures.
        embedding: the graph's embedding of the picture, `(features,)`; without it the picture is not compared
            with those trained on.
        skin_tone: the declared skin tone, if any.
        skin_tone_scale: the scale it was declared on.
        top: list only so many findings; all of them by default. The prediction set is never cut.
        prevalence: of malignancy at the place, by subgroup, where it was stated.

    Raises:
        GraphError: the probabilities are not one finite number per label, or the embedding is not one
            finite number per feature.
    """
    if np.shape(probabilities) != (len(manifest.labels),) or not np.isfinite(probabilities).all():
        raise GraphError(
            f"the probabilities have shape {np.shape(probabilities)}; they are one finite number for each of "
            f"the {len(manifest.labels)} labels"
        )
    if pattern is not None:
        manifest = manifest.under(pattern)
    order = np.argsort(-np.asarray(probabilities, dtype=np.float64), kind="stable")
    bins = LOGIT_BINS.bin(probabilities)
    conformal = manifest.conformal
    guarantee = conformal.guarantee if is_for(manifest, skin_tone, skin_tone_scale) else "none"
    threshold_bin = 0 if guarantee == "none" else conformal.threshold_bin
    in_set = tuple(manifest.labels[k].code for k in order if bins[k] >= threshold_bin)
    malignant = malignant_classes(manifest.labels)
    unfamiliar = _unfamiliar(manifest, embedding)
    one = np.asarray(probabilities)[np.newaxis]
    triage = _triage(
        one,
        malignant,
        manifest,
        skin_tone,
        skin_tone_scale,
        unfamiliar=bool(unfamiliar),
        prevalence=(prevalence or {}).get(manifest.subgroup.name),
    )
    conclusion = _conclusion(one, manifest, triage) if guarantee != "none" and not unfamiliar else None
    reported = conclusion is not None
    risk = _malignancy(probabilities, malignant, manifest, skin_tone, skin_tone_scale)
    held_back = bool(risk.above) and not malignant[order[0]] and not reported
    return Decision(
        reported=reported,
        held_back=held_back,
        unfamiliar=unfamiliar,
        findings=tuple(Finding(manifest.labels[k], float(probabilities[k])) for k in order[:top]),
        in_set=in_set,
        coverage=round(1 - conformal.alpha, 6),
        guarantee=guarantee,
        set_calibrated_on=conformal.n,
        malignancy=risk,
        warnings=(
            *((HELD_BACK,) * held_back),
            *_familiarity_warnings(manifest, unfamiliar),
            *_warnings(manifest, in_set, skin_tone, skin_tone_scale, pattern),
        ),
        triage=triage,
        conclusion=conclusion,
    )


def _conclusion(
    one: NDArray[Any], manifest: BundleManifest, triage: TriageAnswer | None
) -> Conclusion | None:
    """What is concluded of one row of probabilities `(1, classes)`."""
    rules, tree = manifest.conclusions, manifest.tree
    ruled_out = np.array([triage is not None and triage.level == "ruled-out"])
    place = int(tree.concluded(one, ruled_out, rules.thresholds(tree))[0])
    if place < 0:
        return None
    node = tree.nodes[place]
    rule = rules.rule_of(node)
    assert rule is not None, "concluded by a rule"
    return Conclusion(node, float(one[0, list(node.classes)].sum()), rule, manifest.basis)


def _triage(
    one: NDArray[Any],
    malignant: NDArray[np.bool_],
    manifest: BundleManifest,
    skin_tone: str | None,
    scale: str | None,
    *,
    unfamiliar: bool,
    prevalence: float | None,
) -> TriageAnswer | None:
    """Who has to see the lesion of one row of probabilities `(1, classes)`."""
    rules = manifest.triage
    if rules is None:
        return None
    bin_of = int(score_bin(malignancy_probability(one, malignant))[0])
    everybody = manifest.subgroup.is_global
    proven = _is_proven(manifest, skin_tone, scale)
    level: Level = "routine"
    if bin_of >= rules.urgent_from:
        level = "urgent"
    elif bin_of < rules.ruled_out_below and proven and not unfamiliar:
        level = "ruled-out"
    held = everybody or proven
    guarantee: Guarantee = "none"
    if held and manifest.conformal.guarantee != "none":
        guarantee = "global" if everybody else "subgroup"
    return TriageAnswer(
        level,
        guarantee,
        manifest.basis,
        rules.level,
        rules.missed,
        rules.kinds,
        rules.false_alarms,
        (rules.n_other, rules.false_alarms_seen, rules.false_alarms_limit),
        None if prevalence is None or guarantee != "subgroup" else PredictiveValues.of(rules, prevalence),
    )


def _malignancy(
    probabilities: NDArray[Any],
    malignant: NDArray[np.bool_],
    manifest: BundleManifest,
    skin_tone: str | None,
    scale: str | None,
) -> MalignancyRisk:
    """The malignancy of one picture, with what was seen on test pictures at the working point."""
    if not malignant.any():
        return MalignancyRisk(None)
    probability = float(malignancy_probability(probabilities, malignant))
    if manifest.suspicious_from is None:
        return MalignancyRisk(probability)
    bins = score_bin(malignancy_probability(np.asarray(probabilities)[np.newaxis], malignant))
    above = is_suspicious(bins, manifest.suspicious_from)
    seen = manifest.counts_for(skin_tone, scale)
    shares = {name: x / n for name, x, n in seen.shares() if n}
    return MalignancyRisk(
        probability,
        LOGIT_BINS.lower(manifest.suspicious_from),
        bool(above[0]),
        shares.get("sensitivity_at_threshold"),
        shares.get("specificity_at_threshold"),
        seen.n_malignant,
    )


def _unfamiliar(manifest: BundleManifest, embedding: NDArray[Any] | None) -> bool | None:
    """Whether the picture is farther from the training pictures than the threshold allows."""
    known = manifest.out_of_distribution
    if known is None or known.threshold_bin is None or embedding is None:
        return None
    if np.shape(embedding) != (known.features,) or not np.isfinite(embedding).all():
        raise GraphError(
            f"the embedding has shape {np.shape(embedding)}; it is one finite number for each of the "
            f"{known.features} features"
        )
    return bool(distance_bin(known.gaussians.distances(embedding[np.newaxis]))[0] > known.threshold_bin)


@dataclass(frozen=True)
class Help:
    """Something that is missing, and by how much its pattern was surer in calibration.

    Attributes:
        missing: one kind of picture, or names of facts.
        fewer_classes: by which the mean prediction set was smaller.
        more_reported: by which the share reported was larger.
    """

    missing: tuple[str, ...]
    fewer_classes: float
    more_reported: float

    def to_json(self) -> dict[str, Any]:
        """As JSON of the service's interface."""
        return asdict(self) | {"missing": list(self.missing)}


def would_help(given: GivenCase, manifest: BundleManifest) -> tuple[Help, ...]:
    """What would help, that which spares most classes first.

    Nothing is compared with pictures of unknown kind: to say what they are comes first, which `decide` warns
    of.

    Args:
        given: what is given of the case.
        manifest: of the model that answers it.
    """
    size, reported = _figures(manifest, given.pattern)
    found = []
    for missing, pattern in _one_more(given):
        if manifest.rules_of(pattern) is None:
            continue
        size_with, reported_with = _figures(manifest, pattern)
        one = Help(missing, round(size - size_with, 1) + 0.0, round(reported_with - reported, 2) + 0.0)
        gains = one.fewer_classes, one.more_reported
        if min(gains) >= 0 and max(gains) > 0:
            found.append(one)
    return tuple(sorted(found, key=lambda one: (-one.fewer_classes, -one.more_reported)))


def _figures(manifest: BundleManifest, pattern: Pattern) -> tuple[float, float]:
    """The mean size of a prediction set and the share reported; every class and none where not known."""
    rules = manifest.rules_of(pattern)
    if rules is None:
        return float(len(manifest.labels)), 0.0
    size = len(manifest.labels) if rules.set_size is None else rules.set_size
    return float(size), rules.reported or 0.0


def _one_more(given: GivenCase) -> Iterator[tuple[tuple[str, ...], Pattern]]:
    """Each thing that is missing, with the pattern that the case would have with it."""
    case, pattern = given.case, given.pattern
    if len(given.kinds) < case.slots and UNKNOWN_KIND not in pattern.kinds:
        for kind in case.kinds:
            if kind not in pattern.kinds:
                yield (kind,), Pattern(kinds=(*pattern.kinds, kind), facts=pattern.facts)
    unknown = tuple(name for name, off in zip(case.fact_names, np.isnan(given.context), strict=True) if off)
    if unknown:
        yield unknown, Pattern(kinds=pattern.kinds, facts="all")
