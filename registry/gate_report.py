"""The report of the gates: a verdict for each gate, the figure behind it, and the check of each subgroup."""

from typing import Literal

from registry.bundle.frozen import Frozen

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

    def __str__(self) -> str:
        sure = (
            ""
            if self.interval is None
            else f", 95 % interval {self.interval[0]:.3f} to {self.interval[1]:.3f}"
        )
        return f"{self.value:.3f} for {self.subgroup} (n {self.n}{sure})"


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
        told = []
        for result in self.results:
            skipped = [one for one in result.findings if one.verdict == "not applicable"]
            if result.verdict == "not applicable":
                told.append(f"{result.gate}: {result.detail}")
            elif skipped:
                named = ", ".join(f"{one.subgroup} ({one.note})" for one in skipped)
                told.append(f"{result.gate}, of {named}")
        return tuple(told)

    @property
    def detail(self) -> str:
        """The details of the gates that refuse, or of all of them where none does."""
        telling = [result for result in self.results if result.verdict == "refused"] or self.results
        return "; ".join(f"gate {result.gate} ({result.verdict}): {result.detail}" for result in telling)


def set_title(model: str, number: int, alias: str = "") -> str:
    """A gate set as messages call it: `set 3 of demo under production`."""
    return f"set {number} {f'of {model}' if model else 'for all models'}{f' under {alias}' if alias else ''}"


def worst_of(findings: tuple[GateFinding, ...]) -> Verdict:
    """The verdict over several lines: refused if any is, not applicable if all are."""
    verdicts = {finding.verdict for finding in findings}
    if "refused" in verdicts:
        return "refused"
    return "passed" if "passed" in verdicts else "not applicable"


def never_tested(names: tuple[str, ...], called: str) -> str:
    """The sentence for subgroups without a test figure."""
    many = len(names) > 1
    return (
        f"subgroup{'s' if many else ''} {', '.join(names)} {'were' if many else 'was'} never tested: the "
        f"version that answers has no test {called} for {'them' if many else 'it'}"
    )
