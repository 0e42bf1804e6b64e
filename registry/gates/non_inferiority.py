"""The gate `non_inferiority`: no subgroup loses more than `delta` against the running release.

With p1 a subgroup's metric under the running release and p2 the one under the release to be, each from the
test of the version that answers for it, the loss is d = p1 - p2. Its 95 % interval by MOVER takes the two
tests for independent: where they used the same images, as tests of two models usually do, the true interval
is narrower. Bundles do not hold on how many images two releases differ, which a paired test would need. The
verdict goes by d alone; the interval is shown and kept.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, get_args

from pydantic import Field

from registry.bundle.manifest import BundleManifest
from registry.gate_report import GateFinding, SubgroupFigure
from registry.gates.gate import (
    Case,
    Need,
    NumericGate,
    answering,
    check,
    difference_interval,
    for_everybody,
    not_applicable,
    tested,
)

Compared = Literal["accuracy", "balanced_accuracy", "malignant_sensitivity", "sensitivity_at_threshold"]
ALL_COMPARED: tuple[Compared, ...] = get_args(Compared)


class NonInferiorityGate(NumericGate):
    """How much any subgroup may lose by the promotion.

    Where nothing runs, or a subgroup had no metric before, there is nothing to compare and the gate does not
    apply. A subgroup that had one and has none now is refused, and so are other labels: their metrics do not
    compare.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"running"})
    name: Literal["non_inferiority"] = "non_inferiority"
    delta: float = Field(ge=0, le=1)  # the largest loss of any subgroup
    metrics: tuple[Compared, ...] = Field(ALL_COMPARED, min_length=1)

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        named = " and ".join(_in_words(metric) for metric in dict.fromkeys(self.metrics))
        return (
            f"test {named} of every subgroup under the running release minus that under the new one: at most "
            f"{self.delta:.3f}"
        )

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each metric and subgroup, or one for the release where nothing compares."""
        measure = "loss"
        if case.unreadable:
            note = (
                f"the running release cannot be read, so that nothing compares: {case.unreadable}. Repair it "
                "as `dermfed-registry verify` says"
            )
            yield GateFinding(subgroup="", measure=measure, verdict="refused", note=note)
        elif not case.running:
            yield not_applicable(measure, "no release runs under this alias yet, so nothing can get worse")
        elif (before := _codes(case.running)) != (now := _codes(case.manifests)):
            note = (
                f"the running release answers {before} and this one would answer {now}, so that their "
                "metrics do not compare. Promote under another alias"
            )
            yield GateFinding(subgroup="", measure=measure, verdict="refused", note=note)
        else:
            for metric in dict.fromkeys(self.metrics):
                yield from self._losses(case, metric)

    def _losses(self, case: Case, metric: Compared) -> Iterator[GateFinding]:
        before, now = (
            {name: tested(name, row, metric) for name, (_, row) in answering(manifests).items()}
            for manifests in (case.running, case.manifests)
        )
        measure = f"loss of {_in_words(metric)}"
        for name in sorted({*before, *now}):
            old, new = before.get(name), now.get(name)
            if old is None:
                yield not_applicable(measure, "no metric under the running release", name)
            elif new is None:
                note = f"{old.value:.3f} under the running release, and never tested now"
                yield check(name, measure, None, "at most", self.delta, note=note)
            else:
                loss = SubgroupFigure(
                    subgroup=name,
                    value=old.value - new.value,
                    n=new.n,
                    interval=difference_interval(old, new),
                )
                note = f"{old.value:.3f} -> {new.value:.3f}"
                yield check(name, measure, loss, "at most", self.delta, note=note)


def _in_words(metric: Compared) -> str:
    at_threshold = metric == "sensitivity_at_threshold"
    return "sensitivity at the working point" if at_threshold else metric.replace("_", " ")


def _codes(manifests: Sequence[BundleManifest]) -> str:
    return ", ".join(label.code for label in for_everybody(manifests).labels)
