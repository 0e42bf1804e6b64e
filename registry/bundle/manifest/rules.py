"""The rules of a bundle: what calibration chose for its answers, and what it calls unfamiliar."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from registry.bundle.cases.patterns import Pattern
from registry.bundle.counts.score_bins import LOGIT_BINS
from registry.bundle.familiarity import DISTANCE_BINS, Gaussians, upper_edge
from registry.bundle.frozen import Frozen
from registry.bundle.manifest.packed_arrays import pack, unpack

ThresholdBin = Annotated[int, Field(ge=0)]  # its largest value depends on the schema: see `BundleManifest`
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
        # The rank ceil((n + 1)(1 - alpha)) must exist among n scores; 1e-9 forgives a rounded alpha.
        if self.guarantee != "none" and (self.n + 1) * self.alpha < 1 - 1e-9:
            raise ValueError(
                f"{self.n} calibration lesions cannot promise a coverage of {1 - self.alpha:g}; at least "
                f"{math.ceil(1 / self.alpha - 1e-9) - 1} are needed, or the guarantee `none`"
            )
        return self

    @model_validator(mode="after")
    def _full_without_guarantee(self) -> "Conformal":
        if self.guarantee == "none" and self.threshold_bin != 0:
            raise ValueError(
                f"threshold_bin is {self.threshold_bin} without a guarantee; too few calibration pictures "
                "give the full set, threshold_bin 0"
            )
        return self


class Abstention(Frozen):
    """The rule of referral: a picture is reported if `LOGIT_BINS.bin(max p) >= threshold_bin`.

    Not where the prediction set is empty, see `BundleManifest.reports_from`. A model that was not calibrated
    refers every picture: that is the default.

    Attributes:
        target_risk: the share of wrong answers that was allowed among the reported.
        threshold_bin: 0 reports everything, as many as there are bins refers everything.
        n: calibration pictures it was chosen on.
        risk: the share of wrong answers among the reported there; None if none was reported.
        risk_high: the upper limit of that share for new pictures, and `level`, how sure it is; None where
            nothing is promised.
    """

    target_risk: float = Field(0.1, ge=0, le=1)
    threshold_bin: ThresholdBin = len(LOGIT_BINS)
    n: int = Field(0, ge=0)
    risk: float | None = Field(None, ge=0, le=1)
    risk_high: float | None = Field(None, ge=0, le=1)
    level: float | None = Field(None, gt=0, lt=1)


class WorkingPoint(Frozen):
    """The rule of suspicion: a lesion is suspicious if `LOGIT_BINS.bin(malignancy) >= threshold_bin`.

    A suspicious picture whose answer is no malignant class is referred.

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


class PatternCalibration(Frozen):
    """The rules for cases of which this much is given; see `registry.bundle.cases.patterns`.

    Attributes:
        pattern: what is given.
        temperature, conformal, abstention, working_point: as in the manifest, for these cases; without a
            working point of its own, that of the manifest.
        set_size: the mean number of classes in a prediction set of the test cases; None where there are none.
        reported: the share of them that is reported.
    """

    pattern: Pattern
    temperature: Temperature
    conformal: Conformal
    abstention: Abstention
    set_size: float | None = Field(None, ge=0)
    reported: float | None = Field(None, ge=0, le=1)
    working_point: WorkingPoint | None = None


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
    def of(
        cls,
        gaussians: Gaussians,
        classes: Sequence[str],
        *,
        trained_on: int,
        rate: float,
        n: int = 0,
        threshold_bin: int | None = None,
    ) -> "OutOfDistribution":
        """The entry for Gaussians of these classes."""
        return cls(
            classes=tuple(classes),
            features=gaussians.num_features,
            means=pack(gaussians.means),
            whitening=pack(gaussians.whitening[np.tril_indices(gaussians.num_features)]),
            trained_on=trained_on,
            rate=rate,
            n=n,
            threshold_bin=threshold_bin,
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
    def _numbers_that_can_be_read(self) -> "OutOfDistribution":
        assert self.gaussians is not None  # unpacked here, so that a bundle that loads can answer
        return self

    @model_validator(mode="after")
    def _enough_for_a_threshold(self) -> "OutOfDistribution":
        # The rank ceil((n + 1)(1 - rate)) must exist among n distances; 1e-9 forgives a rounded rate.
        if self.threshold_bin is not None and (self.n + 1) * self.rate < 1 - 1e-9:
            raise ValueError(
                f"{self.n} calibration lesions cannot keep the share called unfamiliar at {self.rate:g}; at "
                f"least {math.ceil(1 / self.rate - 1e-9) - 1} are needed, or no threshold_bin"
            )
        return self
