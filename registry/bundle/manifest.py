"""`bundle.json`: everything a model needs in addition to its graph, what its test showed, and its lineage.

Nothing in it depends on when or where it was written unless that is given (`lineage.created`), so that the
same job gives the same digest. Arrays are text, little-endian float32 in base64, which comes back to the last
bit. The bytes are one canonical text per manifest.

An attestation is a signature of the coordinator that counted the test, over the statement `attested`, with
its public key. It is made and verified in `registry.attestation`: here is no cryptography. Whose the key is,
the bundle does not say; a gate or a person knows it by its fingerprint.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from registry.bundle.cases import CaseInput, Pattern, refuse_repeated
from registry.bundle.conclusions import Conclusions, Tree
from registry.bundle.counts import ScoreHistograms
from registry.bundle.errors import BundleCorrupt, ManifestError, OtherSchema
from registry.bundle.evaluation import Evaluation, GroupCounts, Metrics, ReferenceHistograms
from registry.bundle.frozen import Frozen
from registry.bundle.labels import (
    ClaimedTone,
    Counted,
    Label,
    Subgroup,
    TonePatients,
    claimed_tones,
    kinds_of,
    malignant_classes,
)
from registry.bundle.metrics.intervals import exact_high
from registry.bundle.model import DISTANCE_BINS, Gaussians, Promise, upper_edge
from registry.bundle.pictures.rule import PictureRule
from registry.bundle.score_bins import LOGIT_BINS, SCORE_BINS
from registry.bundle.skin_tone import ToneRanges

_TYPE = np.dtype("<f4")


def pack(array: NDArray[Any]) -> str:
    """Packs an array, row by row, as base64 text: 16 characters for three numbers."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=_TYPE).tobytes()).decode()


def unpack(text: str, count: int) -> NDArray[np.float32]:
    """Unpacks the `count` numbers of a text, `(count,)`.

    Raises:
        ValueError: the text is not base64, holds another number of numbers, or one that is not finite.
    """
    content = base64.b64decode(text, validate=True)
    if len(content) != count * _TYPE.itemsize:
        raise ValueError(
            f"{len(content):,} bytes of float32 do not make {count:,} numbers; they are {_TYPE.itemsize} each"
        )
    numbers = np.frombuffer(content, dtype=_TYPE).astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError("some of the float32 numbers are not finite; the model has diverged or is damaged")
    return numbers


ATTESTATION: Final = "application/vnd.dermfed.figures+json"
"""The type of a signed statement about figures."""

UNSIGNED: Final = "the uploader's word: nobody who measured them has signed"
"""What is said of figures without a signature."""

_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/=\n]+)\n-----END PUBLIC KEY-----\n")
_LARGEST = 2000  # characters of a key or a signature; those of P-521 are far smaller


class Attestation(Frozen):
    """A signature over the metrics, by the key of those who measured them.

    Attributes:
        public_key: of the key, in PEM (SubjectPublicKeyInfo).
        signature: over `attested(manifest)`, as DER in base64.
    """

    public_key: str = Field(max_length=_LARGEST)
    signature: str = Field(min_length=1, max_length=_LARGEST)

    @property
    def fingerprint(self) -> str:
        """The sha256 of the public key, as people and gates name it; of whom, it does not say."""
        return "sha256:" + hashlib.sha256(self._key).hexdigest()

    @property
    def signed(self) -> bytes:
        """The signature (DER)."""
        return base64.b64decode(self.signature, validate=True)

    @property
    def _key(self) -> bytes:
        match = _PEM.fullmatch(self.public_key)
        if match is None:
            raise ValueError("attestation.public_key is one public key in PEM, and nothing beside it")
        return base64.b64decode(match[1].replace("\n", ""), validate=True)

    @model_validator(mode="after")
    def _can_be_read(self) -> "Attestation":
        _ = self._key, self.signed  # a ValueError where one is no base64
        return self


Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class EncoderOrigin(Frozen):
    """What an encoder was before the run.

    Attributes:
        name: the timm model.
        source: as the job named it: a file, `package:…` or `hub:…`.
        sha256: of the file of weights.
        licence: under which they are given; None if unknown.
    """

    name: str
    source: str
    sha256: Digest
    licence: str | None = None


class Lineage(Frozen):
    """The lineage of a model: its job, data, seed and parent.

    Attributes:
        job: digest of the resolved job.
        recipe: the recipe's name, or the job's own.
        data: the fingerprint of each client's data, by client.
        seed: the job's seed.
        parent: digest of what it began from: for a subgroup's model, of the bundle of the run's global model;
            for a global model, of the file of weights that the job named, if it named one.
        encoder: what its encoder was before the run, or each of several in their order; None for one of
            random weights, and in bundles of older versions, and then not written.
        code_version: the dermfed that made it.
        created: when, if the maker says so; left out, the digest does not depend on time.
    """

    job: Digest
    recipe: str
    data: Mapping[str, str] = Field(default_factory=dict)
    seed: int
    parent: Digest | None = None
    encoder: EncoderOrigin | tuple[EncoderOrigin, ...] | None = None
    code_version: str
    created: str | None = None


ThresholdBin = Annotated[int, Field(ge=0, le=SCORE_BINS)]
Guarantee = Literal["subgroup", "global", "none"]


class Temperature(Frozen):
    """Temperature scaling: what the logits are divided by, inside the graph.

    Attributes:
        value: the temperature; 1 leaves the logits as they are.
        n: calibration pictures it was fitted on.
        shrunk: whether it was drawn towards the global temperature because they are few.
    """

    value: float = Field(1.0, gt=0)
    n: int = Field(0, ge=0)
    shrunk: bool = False


def _least_lesions(share: float) -> int:
    """The fewest n among whose scores there is one of rank ⌈(n + 1)(1 − share)⌉."""
    return math.ceil(1 / share - 1e-9) - 1  # 1e-9 forgives a rounded share


class Conformal(Frozen):
    """The rule of the prediction set: class k is in it if `bins.bin(p_k) >= threshold_bin`.

    Attributes:
        alpha: one minus the coverage aimed at.
        threshold_bin: 0 puts every class into the set.
        n: calibration lesions it was fitted on.
        guarantee: for whom the coverage is promised; with `none` the set is full.
    """

    alpha: float = Field(0.1, gt=0, lt=1)
    threshold_bin: ThresholdBin = 0
    n: int = Field(0, ge=0)
    guarantee: Guarantee = "none"

    @model_validator(mode="after")
    def _enough_for_a_guarantee(self) -> "Conformal":
        if self.guarantee != "none" and self.n < (least := _least_lesions(self.alpha)):
            raise ValueError(
                f"{self.n} calibration lesions cannot promise a coverage of {1 - self.alpha:g}; at least "
                f"{least} are needed, or the guarantee `none`"
            )
        if self.guarantee == "none" and self.threshold_bin != 0:
            raise ValueError(
                f"threshold_bin is {self.threshold_bin} without a guarantee; too few calibration pictures "
                "give the full set, threshold_bin 0"
            )
        return self


class WorkingPoint(Frozen):
    """The rule of suspicion: a lesion is suspicious if `LOGIT_BINS.bin(malignancy) >= threshold_bin`.

    Attributes:
        target: the sensitivity that was asked for.
        level: how sure it is that `sensitivity_low` is reached.
        threshold_bin: 0 makes every lesion suspicious.
        sensitivity_low: the lower limit of the share of malignant lesions that are suspicious.
        n: malignant calibration lesions that it was chosen on.
        reached: whether `sensitivity_low` is the target or more; else they were too few to show it.
    """

    target: float = Field(gt=0, lt=1)
    level: float = Field(gt=0, lt=1)
    threshold_bin: ThresholdBin
    sensitivity_low: float = Field(ge=0, le=1)
    n: int = Field(ge=1)
    reached: bool

    @model_validator(mode="after")
    def _reached_where_it_is(self) -> "WorkingPoint":
        if self.reached != (self.sensitivity_low >= self.target):
            raise ValueError(
                f"sensitivity_low is {self.sensitivity_low:g} and the target {self.target:g}; with these, "
                f"`reached` is not {str(self.reached).lower()}: it says whether the target is shown"
            )
        return self


class KindMissed(Frozen):
    """How many calibration lesions of a kind of malignancy are ruled out.

    Attributes:
        kind: of malignancy, one of `kinds_of(labels)`.
        n: lesions.
        missed: those of them that are ruled out.
        high: the upper limit of that share.
    """

    kind: str
    n: int = Field(ge=0)
    missed: int = Field(ge=0)
    high: float = Field(ge=0, le=1)


class Triage(Frozen):
    """The rules of triage, by `LOGIT_BINS.bin(malignancy)`.

    A lesion is urgent if that is at least `urgent_from`, else ruled out if it is below `ruled_out_below`,
    else routine.

    Attributes:
        missed: the share of each kind of malignancy that may be ruled out.
        false_alarms: the share of lesions that are not malignant that may be urgent.
        level: how sure each of these is.
        ruled_out_below: 0 where nothing is ruled out: a kind has too few lesions to show so few misses.
        kinds: what is missed of each kind; empty where one has too few lesions to tell of.
        ruled_out_low: the lower limit of the share of other lesions that are ruled out.
        missed_high: the upper limit of the share that is missed of the kind where it is largest.
        urgent_from: as many as there are bins where nothing is urgent.
        n_other: calibration lesions that are not malignant.
        false_alarms_seen: those of them that are urgent.
        false_alarms_high: the upper limit of their share.
        urgent_low: the lower limit of the share of malignant lesions that are urgent. This and the other
            three limits are one-sided, each at .975: two of them make a predictive value.
    """

    missed: float = Field(gt=0, lt=1)
    false_alarms: float = Field(gt=0, lt=1)
    level: float = Field(gt=0, lt=1)
    ruled_out_below: ThresholdBin = 0
    kinds: tuple[KindMissed, ...] = ()
    ruled_out_low: float = Field(0.0, ge=0, le=1)
    missed_high: float = Field(1.0, ge=0, le=1)
    urgent_from: ThresholdBin = SCORE_BINS
    n_other: int = Field(0, ge=0)
    false_alarms_seen: int = Field(0, ge=0)
    false_alarms_high: float = Field(1.0, ge=0, le=1)
    urgent_low: float = Field(0.0, ge=0, le=1)

    @model_validator(mode="after")
    def _ruled_out_with_a_proof(self) -> "Triage":
        unproven = [one.kind for one in self.kinds if one.high > self.missed]
        if self.ruled_out_below and (unproven or not self.kinds):
            raise ValueError(
                f"lesions are ruled out below bin {self.ruled_out_below}, and of "
                f"{', '.join(unproven) or 'the kinds of malignancy'} it is not shown that at most "
                f"{self.missed:g} are missed; without that ruled_out_below is 0"
            )
        if wrong := [one.kind for one in self.kinds if one.missed > one.n]:
            raise ValueError(f"more lesions of {', '.join(wrong)} are missed than there are")
        return self

    @property
    def false_alarms_limit(self) -> float:
        """The upper limit, at `level`, of the share of other lesions that are urgent; 1 of none."""
        x, n = np.array(float(self.false_alarms_seen)), np.array(float(self.n_other))
        return float(exact_high(x, n, 2 * self.level - 1)) if self.n_other else 1.0

    @property
    def nothing_ruled_out(self) -> "Triage":
        """The same rules for whom nothing is promised."""
        return self.model_copy(update={"ruled_out_below": 0})


class PatternCalibration(Frozen):
    """The rules for cases of which this much is given; see `registry.bundle.cases`.

    Attributes:
        pattern: what is given.
        temperature, conformal, working_point, triage, conclusions: as in the manifest, for these cases;
            without a working point of its own, that of the manifest.
        set_size: the mean number of classes in a prediction set of the test cases; None where there are none.
        reported: the share of them of which something is concluded.
    """

    pattern: Pattern
    temperature: Temperature
    conformal: Conformal
    set_size: float | None = Field(None, ge=0)
    reported: float | None = Field(None, ge=0, le=1)
    working_point: WorkingPoint | None = None
    triage: Triage | None = None
    conclusions: Conclusions = Conclusions()


class OutOfDistribution(Frozen):
    """The rule of unfamiliarity: a picture is referred if `distance_bin(M(x)) > threshold_bin`.

    Attributes:
        classes: codes of the classes that have a Gaussian, in the order of the labels.
        features: the length of the embedding.
        means: the mean embedding of each class, row by row, packed.
        whitening: L⁻¹ with L Lᵀ the covariance, its lower triangle row by row, packed.
        trained_on: training pictures that they were fitted on.
        rate: the share of known pictures that may be called unfamiliar.
        n: calibration lesions behind the threshold.
        threshold_bin: None calls nothing unfamiliar.
    """

    classes: tuple[str, ...] = Field(min_length=1)
    features: int = Field(ge=1)
    means: str
    whitening: str
    trained_on: int = Field(ge=1)
    rate: float = Field(gt=0, lt=1)
    n: int = Field(0, ge=0)
    threshold_bin: int | None = Field(None, ge=0, le=DISTANCE_BINS - 2)

    @classmethod
    def of(cls, gaussians: Gaussians, classes: Sequence[str], **fields: Any) -> "OutOfDistribution":
        """The entry for Gaussians of these classes; keywords are further fields."""
        lower = np.tril_indices(gaussians.num_features)
        return cls(
            classes=tuple(classes),
            features=gaussians.num_features,
            means=pack(gaussians.means),
            whitening=pack(gaussians.whitening[lower]),
            **fields,
        )

    @cached_property
    def gaussians(self) -> Gaussians:
        """The unpacked Gaussians, from which a picture's distance is computed."""
        features = self.features
        means = unpack(self.means, len(self.classes) * features).reshape(len(self.classes), features)
        whitening = np.zeros((features, features), dtype=np.float32)
        whitening[np.tril_indices(features)] = unpack(self.whitening, features * (features + 1) // 2)
        return Gaussians(means, whitening)

    @property
    def threshold(self) -> float | None:
        """The distance from which on a picture is called unfamiliar."""
        return None if self.threshold_bin is None else upper_edge(self.threshold_bin)

    @model_validator(mode="after")
    def _enough_for_a_threshold(self) -> "OutOfDistribution":
        _ = self.gaussians  # unpacked here, so that a bundle that loads can answer
        if self.threshold_bin is not None and self.n < (least := _least_lesions(self.rate)):
            raise ValueError(
                f"{self.n} calibration lesions cannot keep the share called unfamiliar at {self.rate:g}; at "
                f"least {least} are needed, or no threshold_bin"
            )
        return self


SCHEMA_VERSION: Final = 1
"""That of every bundle: one of another is refused."""


def sha256(content: bytes) -> str:
    """The digest of `content`, as it is written everywhere: `sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


class ModelFile(Frozen):
    """The digest and size of the `model.onnx` that belongs to the manifest."""

    sha256: Digest
    size: int = Field(ge=0)  # bytes

    @classmethod
    def of(cls, content: bytes) -> "ModelFile":
        """The entry for these bytes."""
        return cls(sha256=sha256(content), size=len(content))


class BundleManifest(Frozen):
    """The whole of `bundle.json`.

    Attributes:
        schema_version: of this text.
        parity: the largest difference in a probability between `model.onnx` and the network it was made of;
            None if not recorded.
        tones: how the skin of each declared tone looks in pictures; None where nobody looked. Nothing is
            routed by it.
        patients_by_tone: how many patients of each skin tone its calibration and its test rest on: of the
            subgroup's tones, or of those of every subgroup for the global model; None if
            not counted. No tone is represented then.
        case: which pictures and facts of a case the model takes; None for a model of single pictures.
        working_point: from which malignancy on a lesion is suspicious; None where no sensitivity was asked
            for.
        triage: which lesions are ruled out, and which are urgent; None of a job without it.
        conclusions: at which nodes of the tree of diagnoses something is concluded, and reported.
        patterns: the rules for each pattern that was calibrated; `temperature`, `conformal`, `working_point`,
            `triage` and `conclusions` are for cases of all these patterns together.
        evaluation: what its test showed; None where it was not tested.
        attestation: a signature of who measured the figures; None where nobody signed.
        basis: of its guarantees: a `split` kept for calibration, or training lesions, each scored by a model
            that was not trained on it, `cross-fitted`: exact for those models, nominal for this one.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    model: str = Field(min_length=1)
    file: ModelFile
    labels: tuple[Label, ...] = Field(min_length=2)
    picture: PictureRule
    subgroup: Subgroup = Subgroup()
    temperature: Temperature = Temperature()
    conformal: Conformal = Conformal()
    out_of_distribution: OutOfDistribution | None = None
    parity: float | None = Field(None, ge=0, le=1)
    tones: ToneRanges | None = None
    patients_by_tone: TonePatients | None = None
    case: CaseInput | None = None
    working_point: WorkingPoint | None = None
    triage: Triage | None = None
    conclusions: Conclusions = Conclusions()
    patterns: tuple[PatternCalibration, ...] = ()
    evaluation: Evaluation | None = None
    reference: ReferenceHistograms | None = None
    lineage: Lineage
    attestation: Attestation | None = None
    basis: Literal["split", "cross-fitted"] = "split"

    @cached_property
    def metrics(self) -> Metrics:
        """Every metric of its test, by name, computed from its counts; empty where it was not tested."""
        return {} if self.evaluation is None else self.evaluation.metrics(self.labels, self.reference)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced; its metrics are its own."""
        copied = super().model_copy(update=update, deep=deep)
        for computed in ("metrics", "tree"):
            copied.__dict__.pop(computed, None)
        return copied

    @property
    def named_subgroups(self) -> tuple[Subgroup, ...]:
        """Whom the model is for, and the subgroups that it was tested on by themselves."""
        tested = self.reference.by_subgroup if self.reference else ()
        return (self.subgroup, *(one.subgroup for one in tested))

    @property
    def suspicious_from(self) -> int | None:
        """The score bin from which on a malignancy is suspicious; None without a working point."""
        return None if self.working_point is None else self.working_point.threshold_bin

    def counts_for(self, skin_tone: str | None, scale: str | None) -> GroupCounts:
        """The most specific test counts for a person of this skin tone; empty if there are none.

        For the global model: those of the tested subgroup that represents the tone, else those of all
        patients. For a subgroup's model: its own if its test represents the tone, else none.
        """
        if self.evaluation is None:
            return GroupCounts()
        if not self.subgroup.is_global:
            tested = self.represents(self.subgroup, skin_tone, scale, "test")
            return self.evaluation.all if tested else GroupCounts()
        known = self.reference.by_subgroup if self.reference else ()
        own = (one.subgroup for one in known if self.represents(one.subgroup, skin_tone, scale, "test"))
        name = next((one.name for one in own), "")
        return self.evaluation.by_subgroup.get(name, self.evaluation.all)

    @property
    def claimed_tones(self) -> tuple[ClaimedTone, ...]:
        """The tones of its subgroup, or of those that the global model was tested on, with their patients."""
        return claimed_tones(self.named_subgroups, self.patients_by_tone)

    def represents(
        self, subgroup: Subgroup, skin_tone: str | None, scale: str | None, part: Counted = "calibration"
    ) -> bool:
        """Whether patients of a declared tone of this subgroup stand behind the calibration, or the test."""
        if self.patients_by_tone is None or skin_tone is None or scale is None:
            return False
        counted = self.patients_by_tone.count(part, skin_tone, scale)
        return subgroup.covers(skin_tone, scale) and counted is not None

    @cached_property
    def tree(self) -> Tree:
        """The tree of diagnoses of its labels."""
        return Tree(self.labels)

    @property
    def all_rules(self) -> "tuple[BundleManifest | PatternCalibration, ...]":
        """What has rules: the manifest for all cases together, and each pattern that was calibrated."""
        return (self, *self.patterns)

    @property
    def refers_all(self) -> bool:
        """Whether nothing is concluded of any picture, whatever its probabilities."""
        return not any(of.conclusions.nodes for of in self.all_rules)

    @property
    def set_threshold(self) -> float:
        """The smallest probability of a class in the prediction set."""
        return LOGIT_BINS.lower(self.conformal.threshold_bin)

    def rules_of(self, pattern: Pattern) -> PatternCalibration | None:
        """The rules of a pattern; None where it was not calibrated by itself."""
        return next((one for one in self.patterns if one.pattern == pattern), None)

    def under(self, pattern: Pattern) -> "BundleManifest":
        """The manifest with the rules for cases of this pattern.

        Where it was not calibrated by itself they are those of all patterns together. They promise nothing
        for it: its cases may be harder than the others.
        """
        rules = self.rules_of(pattern)
        if rules is None:
            nothing = self.conformal.model_copy(update={"threshold_bin": 0, "guarantee": "none"})
            triage = None if self.triage is None else self.triage.nothing_ruled_out
            none = self.conclusions.model_copy(update={"nodes": ()})
            return self.model_copy(update={"conformal": nothing, "triage": triage, "conclusions": none})
        return self.model_copy(
            update={
                "temperature": rules.temperature,
                "conformal": rules.conformal,
                "working_point": rules.working_point or self.working_point,
                "triage": rules.triage,
                "conclusions": rules.conclusions,
            }
        )

    @model_validator(mode="after")
    def _patterns_of_its_case(self) -> "BundleManifest":
        refuse_repeated("pattern", [one.pattern.name for one in self.patterns])
        for one in self.patterns:
            if self.case is None or not one.pattern.within(self.case):
                raise ValueError(f"pattern {one.pattern.name} is none that this model can be given")
        return self

    @property
    def _histograms(self) -> tuple[ScoreHistograms, ...]:
        return (self.reference, *self.reference.by_subgroup) if self.reference else ()

    @model_validator(mode="after")
    def _parts_that_agree(self) -> "BundleManifest":
        codes = [label.code for label in self.labels]
        refuse_repeated("label", codes)
        for one in self._histograms:
            if len(one.scores) != len(codes):
                raise ValueError(
                    f"the reference histograms are of {len(one.scores)} classes; there are {len(codes)} "
                    "labels"
                )
            if wrong := {len(row) for row in one.rows} - {SCORE_BINS}:
                raise ValueError(
                    f"a reference histogram of scores has {min(wrong)} bins; it has {SCORE_BINS}"
                )
        counted = self.evaluation.by_class if self.evaluation is not None else {}
        if counted and set(counted) != set(codes):
            raise ValueError(
                f"the test counts are of the classes {', '.join(counted)}; the labels are {', '.join(codes)}"
            )
        known = self.out_of_distribution.classes if self.out_of_distribution else ()
        if known != tuple(code for code in codes if code in known):
            raise ValueError(
                f"out_of_distribution is of the classes {', '.join(known)}; it is of some of the labels, "
                f"each once and in their order: {', '.join(codes)}"
            )
        points = [one.working_point for one in self.all_rules]
        if any(points) and not malignant_classes(self.labels).any():
            raise ValueError("there is a working point on malignancy, and no label is malignant")
        if self.working_point is None and any(points):
            raise ValueError("a pattern has a working point, and all patterns together have none")
        kinds = kinds_of(self.labels)
        for of in self.all_rules:
            told = () if of.triage is None else tuple(one.kind for one in of.triage.kinds)
            if told not in ((), kinds):
                raise ValueError(
                    f"triage is of the kinds {', '.join(told)}; those of the labels are "
                    f"{', '.join(kinds) or 'none'}, each once and in their order"
                )
        nodes = {(node.level, node.code) for node in self.tree.nodes}
        drawn = [one.conclusions for one in self.all_rules]
        for rule, target in ((one, of.target_risk) for of in drawn for one in of.nodes):
            if (rule.level, rule.code) not in nodes:
                raise ValueError(f"{rule.code} is no node of the level {rule.level} of the labels")
            if rule.risk_high > target or rule.wrong > rule.n:
                raise ValueError(
                    f"{rule.code} is concluded where {rule.wrong} of {rule.n} were wrong, at most "
                    f"{rule.risk_high:g} of them; {target:g} is allowed"
                )
        if self.subgroup.is_global and "subgroup" in {one.conformal.guarantee for one in self.all_rules}:
            raise ValueError(
                "the global model promises no coverage per subgroup; its guarantee is `global` or `none`"
            )
        return self


def promise_of(manifest: BundleManifest) -> Promise:
    """What the model of this manifest takes and answers."""
    case, statistics = manifest.case, manifest.out_of_distribution
    return Promise(
        size=manifest.picture.size,
        classes=len(manifest.labels),
        features=None if statistics is None else statistics.features,
        slots=None if case is None else case.slots,
        kinds=0 if case is None else len(case.kinds),
        facts=tuple(
            (fact.low, fact.high) if fact.kind == "number" else (0, len(fact.values) - 1)
            for fact in (case.facts if case else ())
        ),
    )


def canonical(manifest: BundleManifest) -> bytes:
    """The one text of a manifest: sorted keys, no spaces, UTF-8. Its sha256 is the bundle's digest."""
    return _text(manifest.model_dump(mode="json"))


def without_attestation(manifest: BundleManifest) -> BundleManifest:
    """The manifest as it is before anybody signs its figures."""
    return manifest.model_copy(update={"attestation": None})


def attested(manifest: BundleManifest) -> bytes:
    """What is signed of a manifest: its job, data, model and figures, and all of it without the signature.

    Canonical JSON. The last digest covers the others: they are for readers of a statement.
    """
    bare = without_attestation(manifest)
    record = bare.model_dump(mode="json", include={"evaluation", "reference"})
    return _text(
        {
            "job": bare.lineage.job,
            "data": dict(bare.lineage.data),
            "model": bare.file.sha256,
            "figures": sha256(_text(record)),
            "manifest": sha256(canonical(bare)),
        }
    )


def read_manifest(content: bytes) -> BundleManifest:
    """The manifest in the text of `bundle.json`.

    Raises:
        OtherSchema: another version of dermfed wrote it.
        BundleCorrupt: the text is not the canonical one: it was edited or re-formatted.
        ManifestError: the text does not say what a manifest must say.
    """
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BundleCorrupt(f"bundle.json is not JSON ({error}); fetch the bundle again") from error
    if not isinstance(record, dict):
        raise ManifestError(f"bundle.json holds a {type(record).__name__}; a manifest is an object")
    version = record.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise OtherSchema(
            f"bundle.json has schema_version {version!r}; this dermfed reads {SCHEMA_VERSION} alone: make "
            "the bundle again with this version, or read it with the one that wrote it"
        )
    if content != _text(record):
        raise BundleCorrupt(
            "bundle.json is not in its canonical form: it was edited after it was written. Fetch the bundle "
            "again"
        )
    try:
        return BundleManifest.model_validate(record)
    except ValidationError as error:
        raise ManifestError(f"bundle.json does not hold: {_problems(error)}") from error


def _text(record: object) -> bytes:
    try:
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except ValueError as error:
        raise ManifestError(
            f"the manifest holds a number or a text that JSON cannot write ({error}); use None instead"
        ) from error


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'the manifest'}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    )
