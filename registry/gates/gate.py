"""What every gate is: a frozen config with a name, that can say what it means and judge a case.

What the gates are shown: the release that would result, the one that runs, and who stands for it.

Test figures as gates read them: each subgroup with the version that answers for it.

That is a subgroup's own version where it has one, the global one elsewhere. What is in no known form counts
as not tested.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeGuard

from pydantic import ConfigDict

from registry.bundle.frozen import Frozen
from registry.bundle.labels import GLOBAL, UNDECLARED
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.patient import ALL, PatientFigures, patient_figures
from registry.gate_report import GateResult, SubgroupFigure


@dataclass(frozen=True)
class InField:
    """How a version does in the field for one subgroup.

    Attributes:
        subgroup: whose outcomes.
        malignant: how many of them are malignant.
        sensitivity: the ends of its 95 % interval at the working point, corrected for who is followed up;
            None where nothing is known.
        broken: promises that were broken, each in a few words.
    """

    subgroup: str
    malignant: int
    sensitivity: tuple[float, float] | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One release to judge.

    Attributes:
        manifests: of the release that would result, the global one among them.
        running: of the release that the alias points to; empty where it points to none.
        unreadable: why the running release cannot be read; empty where it can.
        promoter: who promotes.
        promoter_key: the fingerprint of the promoter's key; empty where nobody signs the promotion.
        approvals: who has approved exactly this release for this alias since the alias last moved, and signed
            that: names by fingerprints.
        approved_unsigned: names of those who have approved it and not signed that, whoever they are.
        signed_by: who has signed each version, by the name of its subgroup, as far as it is proven.
        claimed_by: who else says to have signed it.
        measured_by: the fingerprint of the key that has signed each version's figures, by the name of its
            subgroup, where the signature holds; whose key it is, gates know.
        in_field: how each version does in the field, by the name of its subgroup, where a gate asks.
        running_in_field: the same of the release that the alias points to.
        outcomes_unread: why outcomes cannot be read; empty where they can.
        approve_with: the command that approves it.
    """

    manifests: tuple[BundleManifest, ...]
    running: tuple[BundleManifest, ...] = ()
    unreadable: str = ""
    promoter: str = ""
    promoter_key: str = ""
    approvals: Mapping[str, str] = field(default_factory=dict)
    approved_unsigned: tuple[str, ...] = ()
    signed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    claimed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measured_by: Mapping[str, str] = field(default_factory=dict)
    in_field: Mapping[str, tuple[InField, ...]] = field(default_factory=dict)
    running_in_field: Mapping[str, tuple[InField, ...]] = field(default_factory=dict)
    outcomes_unread: str = ""
    approve_with: str = "dermfed-registry approve"


ROUNDING = 1e-9  # 0.8 - 0.7 is a little over 0.1 in floating point, and yet within a limit of 0.1


class GateConfig(Frozen):
    """One gate with its limits; strict, so that `yes` or a text never becomes a limit.

    Attributes:
        name: what a gate set calls it.
        looks_at_running: whether it compares with the running release.
        looks_at_signatures: whether it asks who has signed.
        looks_at_measurers: whether it asks who has signed the figures.
        looks_at_outcomes: whether it asks what became of patients.
    """

    model_config = ConfigDict(strict=True)
    looks_at_running: ClassVar[bool] = False
    looks_at_signatures: ClassVar[bool] = False
    looks_at_measurers: ClassVar[bool] = False
    looks_at_outcomes: ClassVar[bool] = False
    name: str

    @property
    @abstractmethod
    def meaning(self) -> str:
        """What passes, in a sentence."""

    @abstractmethod
    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""


def stand(manifests: Sequence[BundleManifest], figure: str = "accuracy") -> dict[str, SubgroupFigure | None]:
    """How each subgroup of a release fared, by name; None where it was never tested.

    A model that was tested on nobody stands as `global`; one that was tested, on no subgroup, as nothing.

    Args:
        manifests: of the release, the global one among them.
        figure: a share, by its name in the test figures.
    """
    everybody = for_everybody(manifests)
    if len(manifests) == 1 and not everybody.metrics:
        return {GLOBAL: None}
    answering = answers_for(manifests)
    return {
        name: _standing(figures_by_subgroup(one).get(name), name, figure) for name, one in answering.items()
    }


def stand_or_total(manifests: Sequence[BundleManifest], figure: str) -> dict[str, SubgroupFigure | None]:
    """As `stand`; where the test names no subgroup, all its pictures stand as `global`."""
    return stand(manifests, figure) or {GLOBAL: _standing(for_everybody(manifests).metrics, GLOBAL, figure)}


def for_patients(manifests: Sequence[BundleManifest]) -> dict[str, PatientFigures | None]:
    """What counts for the patients of each subgroup, by name; None where it was never tested.

    Where the test names no subgroup, all its pictures stand as `global`.
    """
    answering = answers_for(manifests)
    found = {name: patient_figures(one.metrics).get(name) for name, one in answering.items()}
    found = found or {GLOBAL: patient_figures(for_everybody(manifests).metrics)[ALL]}
    return {name: row if row is not None and row.n else None for name, row in found.items()}


def for_everybody(manifests: Sequence[BundleManifest]) -> BundleManifest:
    """The global one."""
    return next(one for one in manifests if one.subgroup.is_global)


def answers_for(manifests: Sequence[BundleManifest]) -> dict[str, BundleManifest]:
    """The manifest that answers for each subgroup: of those with their own, and of the global test's."""
    own = {one.subgroup.name: one for one in manifests if not one.subgroup.is_global}
    everybody = for_everybody(manifests)
    named = [name for name in figures_by_subgroup(everybody) if name not in (UNDECLARED, GLOBAL)]
    return {name: own.get(name, everybody) for name in sorted({*own, *named})}


def figures_by_subgroup(manifest: BundleManifest) -> Mapping[str, Any]:
    """What the manifest's test says of each subgroup; nothing where it says it in no known form."""
    found = manifest.metrics.get("by_subgroup")
    return found if isinstance(found, Mapping) else {}


def interval_of(figures: Mapping[str, Any], figure: str) -> tuple[float, float] | None:
    """The interval of a figure that is a share; None where there is none in a known form."""
    intervals = figures.get("intervals")
    ends = intervals.get(figure) if isinstance(intervals, Mapping) else None
    if not isinstance(ends, Sequence) or len(ends) != 2 or not all(is_share(end) for end in ends):
        return None
    low, high = float(ends[0]), float(ends[1])
    return (low, high) if low <= high else None


def is_share(value: Any) -> TypeGuard[float]:
    """Whether a figure is a number from 0 to 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def difference_interval(first: SubgroupFigure, second: SubgroupFigure) -> tuple[float, float] | None:
    """The 95 % interval of first - second from the intervals of both, for estimates that are independent.

    With d = p1 - p2 it is MOVER (Zou & Donner 2008, Statistics in Medicine 27, 1693-1702):

        d - sqrt((p1 - l1)^2 + (u2 - p2)^2)  to  d + sqrt((u1 - p1)^2 + (p2 - l2)^2)
    """
    if first.interval is None or second.interval is None:
        return None
    p1, (l1, u1) = first.value, first.interval
    p2, (l2, u2) = second.value, second.interval
    return p1 - p2 - math.hypot(p1 - l1, u2 - p2), p1 - p2 + math.hypot(u1 - p1, p2 - l2)


def _standing(figures: object, name: str, figure: str) -> SubgroupFigure | None:
    if not isinstance(figures, Mapping):
        return None
    value, n = figures.get(figure), figures.get("n")
    if not is_share(value) or not isinstance(n, int) or isinstance(n, bool) or n < 1:
        return None
    return SubgroupFigure(subgroup=name, value=float(value), n=n, interval=interval_of(figures, figure))
