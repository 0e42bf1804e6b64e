"""What gates found and what a promotion would change, as records that terminal, JSON and pages show.

`GateReport`: a verdict for each gate, the value behind it, and a line for each subgroup. `Comparison`: each
subgroup, which version answers it before and after, its metrics, and what gates find. Views compute nothing.
"""

from dataclasses import dataclass
from typing import Literal

from registry.bundle.frozen import Frozen
from registry.bundle.metrics.patient import Told

Verdict = Literal["passed", "refused", "not applicable"]
Bound = Literal["at least", "at most"]

OVERRIDE = "or override with --override-gates --reason"


class SubgroupFigure(Frozen):
    """The test figure of one subgroup, with its interval.

    Attributes:
        subgroup: its name.
        value: the figure of the version that answers for it.
        n: the pictures tested.
        interval: the 95 % interval of `value`, where there is one.
    """

    subgroup: str
    value: float
    n: int
    interval: tuple[float, float] | None = None


class GateFinding(Frozen):
    """What a gate found for one subgroup, version or the whole release: a figure, its limit and a verdict.

    Attributes:
        subgroup: whom it is about; empty where it is about the whole release.
        measure: what was looked at.
        value: the figure; None where there is none.
        n: the test pictures behind it, where it is a figure of a test.
        interval: its 95 % interval, where there is one.
        bound: on which side of the limit the figure must lie.
        limit: the limit; None where the rule is no number.
        verdict: of this line.
        note: why, where figures do not say it.
    """

    subgroup: str
    measure: str
    value: float | None = None
    n: int | None = None
    interval: tuple[float, float] | None = None
    bound: Bound = "at most"
    limit: float | None = None
    verdict: Verdict
    note: str = ""


class GateResult(Frozen):
    """The verdict of one gate on a release.

    Attributes:
        gate: the gate's name.
        verdict: `not applicable` has judged nothing, and says why; it vouches for nothing.
        value: what was measured, the worst of several; None where nothing could be.
        limit: the largest value that passes, or the smallest; None where the rule is no number.
        interval: the 95 % interval of `value`; None where a subgroup has none.
        best: the subgroup served best, where the gate compares two.
        worst: the subgroup served worst.
        untested: subgroups without a test figure; one is enough to refuse.
        findings: each subgroup's or version's line.
        detail: all of it in a sentence, with what to do.
    """

    gate: str
    verdict: Verdict
    value: float | None = None
    limit: float | None = None
    interval: tuple[float, float] | None = None
    best: SubgroupFigure | None = None
    worst: SubgroupFigure | None = None
    untested: tuple[str, ...] = ()
    findings: tuple[GateFinding, ...] = ()
    detail: str


class GateReport(Frozen):
    """The verdicts of all gates on a release; stored with the promotion.

    Attributes:
        results: of each gate of the set, in its order.
        set_model: the model whose gate set it was; empty for the set of all models.
        set_number: the set's number; 0 for the one that a registry begins with.
        set_alias: the alias whose gate set it was; empty for the set of all aliases.
    """

    results: tuple[GateResult, ...]
    set_model: str = ""
    set_number: int = 0
    set_alias: str = ""

    @property
    def refused(self) -> bool:
        """Whether any gate refuses."""
        return any(result.verdict == "refused" for result in self.results)

    @property
    def not_judged(self) -> tuple[str, ...]:
        """What was not judged: gates that do not apply, and the subgroups to which others do not."""
        skipped_gates = []
        for result in self.results:
            skipped = [one for one in result.findings if one.verdict == "not applicable"]
            if result.verdict == "not applicable":
                skipped_gates.append(f"{result.gate}: {result.detail}")
            elif skipped:
                named = ", ".join(f"{one.subgroup} ({one.note})" for one in skipped)
                skipped_gates.append(f"{result.gate}, of {named}")
        return tuple(skipped_gates)

    @property
    def detail(self) -> str:
        """The details of the gates that refuse, or of all of them where none does."""
        shown = [result for result in self.results if result.verdict == "refused"] or self.results
        return "; ".join(f"gate {result.gate} ({result.verdict}): {result.detail}" for result in shown)


def set_title(model: str, number: int, alias: str = "") -> str:
    """A gate set as messages call it: `set 3 of demo under production`."""
    return f"set {number} {f'of {model}' if model else 'for all models'}{f' under {alias}' if alias else ''}"


def worst_of(findings: tuple[GateFinding, ...]) -> Verdict:
    """The verdict over several lines: refused if any is, not applicable if all are."""
    verdicts = {finding.verdict for finding in findings}
    if "refused" in verdicts:
        return "refused"
    return "passed" if "passed" in verdicts else "not applicable"


NOT_JUDGED = "not judged"
"""What stands where a gate does not apply: it has not looked, and so has let nothing pass."""


@dataclass(frozen=True)
class Answering:
    """Who answers for a subgroup, and on how many pictures that was tested.

    Attributes:
        version: the number of the version.
        own: whether it is the subgroup's own; False for the global version.
        n: test pictures of the subgroup; None where it is not disclosed, as the next two.
        n_malignant: malignant ones.
        n_other: those that are not.
    """

    version: int
    own: bool
    n: int | None
    n_malignant: int | None
    n_other: int | None


@dataclass(frozen=True)
class FigureChange:
    """One figure of a subgroup, under the running release and under the candidate.

    Attributes:
        figure: its name in the bundle.
        called: what people call it.
        running: under the running release; None where nothing runs, or it cannot be read.
        candidate: under the candidate; None where it does not name this subgroup.
        change: candidate minus running, where both have a value.
        lost: whether the subgroup loses: its figure falls, or there is none any more.
        kind: of malignancy, whose figure it is; None for that of all pictures.
    """

    figure: str
    called: str
    running: Told | None
    candidate: Told | None
    change: float | None
    lost: bool
    kind: str | None = None


@dataclass(frozen=True)
class GateSaid:
    """What one gate says, of one subgroup or of the whole release.

    Attributes:
        gate: its name.
        verdict: as the gate gave it, the worst of several lines; `not judged` where it does not apply.
        detail: its lines about this subgroup, or its sentence about the release.
    """

    gate: str
    verdict: str
    detail: str


@dataclass(frozen=True)
class SubgroupChange:
    """One subgroup, as it is and as it would be.

    Attributes:
        subgroup: its name.
        running: who answers now; None where nothing runs, cannot be read, or does not name this subgroup.
        candidate: who would answer; None where the candidate does not name this subgroup.
        version_changes: whether another version answers than before.
        figures: sensitivity first.
        gates: what each gate that looks at this subgroup says.
        lost: whether any figure is lost.
        refused: whether any gate refuses for it.
    """

    subgroup: str
    running: Answering | None
    candidate: Answering | None
    version_changes: bool
    figures: tuple[FigureChange, ...]
    gates: tuple[GateSaid, ...]
    lost: bool
    refused: bool


@dataclass(frozen=True)
class Comparison:
    """The release that would result next to the one that runs.

    Attributes:
        model, alias: of which model, under which alias.
        release: the release that runs; None where none does.
        named: the versions that are to be promoted.
        without: the subgroups that are to have no version of their own.
        running: the versions of the release that runs.
        candidate: the versions of the release that would result.
        changes_nothing: whether these are the same.
        unreadable: why the running release cannot be read; empty where it can.
        warnings: what to know before promoting, in sentences.
        subgroups: the darkest skin first.
        gates: what each gate says of the release as a whole.
        losses: `subgroup: figure` of each that is lost.
        refused: whether any gate refuses.
        report: everything that the gates said.
    """

    model: str
    alias: str
    release: int | None
    named: tuple[int, ...]
    without: tuple[str, ...]
    running: tuple[int, ...]
    candidate: tuple[int, ...]
    changes_nothing: bool
    unreadable: str
    warnings: tuple[str, ...]
    subgroups: tuple[SubgroupChange, ...]
    gates: tuple[GateSaid, ...]
    losses: tuple[str, ...]
    refused: bool
    report: GateReport
