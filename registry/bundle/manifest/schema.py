"""The schema of `bundle.json`: everything a model needs beside its graph, its figures and its lineage.

Nothing in it depends on when or where it was written unless that is given (`lineage.created`), so
that the same job gives the same digest.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pydantic import Field, JsonValue, model_validator

from registry.bundle.cases.case_input import CaseInput
from registry.bundle.cases.patterns import Pattern
from registry.bundle.counts.reference_histograms import ScoreHistograms
from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS
from registry.bundle.familiarity import DISTANCE_BINS
from registry.bundle.frozen import Frozen
from registry.bundle.manifest.attestation import Attestation
from registry.bundle.manifest.labels import Label, malignant_classes
from registry.bundle.manifest.lineage import Digest, EncoderOrigin, Lineage
from registry.bundle.manifest.rules import (
    Abstention,
    Conformal,
    Guarantee,
    OutOfDistribution,
    PatternCalibration,
    Temperature,
    WorkingPoint,
)
from registry.bundle.manifest.subgroup import (
    GLOBAL,
    UNDECLARED,
    ClaimedTone,
    Counted,
    Subgroup,
    TonePatients,
    claimed_tones,
)
from registry.bundle.pictures.rule import PictureRule
from registry.bundle.skin_tone.typology_angle import ToneRanges

# Lineage, rules and subgroups are a part of the schema; they have files of their own for its length alone.
__all__ = [
    "GLOBAL",
    "UNDECLARED",
    "Abstention",
    "Conformal",
    "EncoderOrigin",
    "Guarantee",
    "Lineage",
    "OutOfDistribution",
    "PatternCalibration",
    "Subgroup",
    "Temperature",
    "TonePatients",
    "WorkingPoint",
]


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


class SubgroupHistograms(ScoreHistograms):
    """The histograms of one subgroup's test pictures.

    Attributes:
        subgroup: whose they are.
    """

    subgroup: Subgroup


class ReferenceHistograms(ScoreHistograms):
    """The histograms of all test pictures: what drift is measured against.

    Attributes:
        distances: the distance from the training pictures, one count per distance bin; None where nothing is
            called unfamiliar.
        by_subgroup: those of single subgroups, in the model for everybody.
    """

    distances: tuple[int, ...] | None = Field(None, min_length=DISTANCE_BINS, max_length=DISTANCE_BINS)
    by_subgroup: tuple[SubgroupHistograms, ...] = ()


class BundleManifest(Frozen):
    """The whole of `bundle.json`.

    Attributes:
        schema_version: of this text.
        parity: the largest difference in a probability between `model.onnx` and the network it was made of;
            None where that is not told.
        tones: how the skin of each declared tone looks in pictures; None where nobody looked. Nothing is
            routed by it.
        patients_by_tone: how many patients of each skin tone its calibration and its test rest on: of the
            subgroup's tones, or of those of every subgroup for the global model; None where nobody counted
            them. No tone is represented then.
        case: which pictures and facts of a case the model takes; None for a model of single pictures.
        working_point: from which malignancy on a lesion is suspicious; None where no sensitivity was asked
            for.
        patterns: the rules for each pattern that was calibrated; `temperature`,
            `conformal`, `abstention` and `working_point` are for cases of all these patterns together.
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
    abstention: Abstention = Abstention()
    out_of_distribution: OutOfDistribution | None = None
    parity: float | None = Field(None, ge=0, le=1)
    tones: ToneRanges | None = None
    patients_by_tone: TonePatients | None = None
    case: CaseInput | None = None
    working_point: WorkingPoint | None = None
    patterns: tuple[PatternCalibration, ...] = ()
    metrics: Mapping[str, JsonValue] = Field(default_factory=dict)
    reference: ReferenceHistograms | None = None
    lineage: Lineage
    attestation: Attestation | None = None
    basis: Literal["split", "cross-fitted"] = "split"

    @property
    def named_subgroups(self) -> tuple[Subgroup, ...]:
        """Whom the model is for, and the subgroups that it was tested on by themselves."""
        tested = self.reference.by_subgroup if self.reference else ()
        return (self.subgroup, *(one.subgroup for one in tested))

    @property
    def reports_from(self) -> int:
        """The score bin from which on a highest probability is reported.

        It reaches the abstention threshold, and a class is in the prediction set: where none is, none is
        credible.
        """
        return max(self.abstention.threshold_bin, self.conformal.threshold_bin)

    @property
    def suspicious_from(self) -> int | None:
        """The score bin from which on a malignancy is suspicious; None without a working point."""
        return None if self.working_point is None else self.working_point.threshold_bin

    def figures_for(self, skin_tone: str | None, scale: str | None) -> Mapping[str, JsonValue]:
        """The test figures that tell most of a person of this tone.

        Those of the tone's subgroup, if the tone was in its test; of the model for everybody, where it was
        not tested on that by itself, those of everybody; of a subgroup's model none for other tones.
        """
        if not self.subgroup.is_global:
            return self.metrics if self.represents(self.subgroup, skin_tone, scale, "test") else {}
        known = self.reference.by_subgroup if self.reference else ()
        tested = (one.subgroup for one in known if self.represents(one.subgroup, skin_tone, scale, "test"))
        name = next((one.name for one in tested), None)
        of_each = self.metrics.get("by_subgroup")
        own = of_each.get(name) if name is not None and isinstance(of_each, Mapping) else None
        return own if isinstance(own, Mapping) else self.metrics

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

    @property
    def refers_all(self) -> bool:
        """Whether no picture is reported, whatever its probabilities."""
        return self.reports_from == SCORE_BINS

    @property
    def set_threshold(self) -> float:
        """The smallest probability of a class in the prediction set."""
        return LOGIT_BINS.lower(self.conformal.threshold_bin)

    @property
    def report_threshold(self) -> float:
        """The smallest highest probability that is reported; 1 where none is."""
        return LOGIT_BINS.lower(self.reports_from)

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
            return self.model_copy(update={"conformal": nothing})
        return self.model_copy(
            update={
                "temperature": rules.temperature,
                "conformal": rules.conformal,
                "abstention": rules.abstention,
                "working_point": rules.working_point or self.working_point,
            }
        )

    @model_validator(mode="after")
    def _patterns_of_its_case(self) -> "BundleManifest":
        names = [one.pattern.name for one in self.patterns]
        if twice := _repeated(names):
            raise ValueError(f"pattern {', '.join(twice)} is there twice; each is calibrated once")
        for one in self.patterns:
            if self.case is None or not one.pattern.within(self.case):
                raise ValueError(f"pattern {one.pattern.name} is none that this model can be given")
        return self

    @model_validator(mode="after")
    def _scores_in_these_bins(self) -> "BundleManifest":
        rules: dict[str, Conformal | Abstention | WorkingPoint | None]
        rules = {
            "conformal": self.conformal,
            "abstention": self.abstention,
            "working_point": self.working_point,
        }
        for one in self.patterns:
            of = one.pattern.name
            rules |= {f"{of}.conformal": one.conformal, f"{of}.abstention": one.abstention}
            rules |= {f"{of}.working_point": one.working_point}
        for name, rule in rules.items():
            if rule is not None and rule.threshold_bin > SCORE_BINS:
                raise ValueError(
                    f"{name}.threshold_bin is {rule.threshold_bin}; with {SCORE_BINS} score bins it is from "
                    f"0 to {SCORE_BINS}"
                )
        for histograms in self._histograms:
            if wrong := {len(row) for row in histograms.rows} - {SCORE_BINS}:
                raise ValueError(
                    f"a reference histogram of scores has {min(wrong)} bins; it has {SCORE_BINS}"
                )
        return self

    @property
    def _histograms(self) -> tuple[ScoreHistograms, ...]:
        return (self.reference, *self.reference.by_subgroup) if self.reference else ()

    @model_validator(mode="after")
    def _parts_that_agree(self) -> "BundleManifest":
        codes = [label.code for label in self.labels]
        if twice := _repeated(codes):
            raise ValueError(f"label {', '.join(twice)} is there twice; each code names one class")
        for one in self._histograms:
            if len(one.scores) != len(codes):
                raise ValueError(
                    f"the reference histograms are of {len(one.scores)} classes; there are {len(codes)} "
                    "labels"
                )
        known = self.out_of_distribution.classes if self.out_of_distribution else ()
        if known != tuple(code for code in codes if code in known):
            raise ValueError(
                f"out_of_distribution is of the classes {', '.join(known)}; it is of some of the labels, "
                f"each once and in their order: {', '.join(codes)}"
            )
        points = [self.working_point, *(one.working_point for one in self.patterns)]
        if any(points) and not malignant_classes(self.labels).any():
            raise ValueError("there is a working point on malignancy, and no label is malignant")
        if self.working_point is None and any(points):
            raise ValueError("a pattern has a working point, and all patterns together have none")
        promised = {self.conformal.guarantee, *(one.conformal.guarantee for one in self.patterns)}
        if "subgroup" in promised and self.subgroup.is_global:
            raise ValueError(
                "the global model promises no coverage per subgroup; its guarantee is `global` or `none`"
            )
        return self


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
