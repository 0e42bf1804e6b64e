"""What a promotion would change, as a record: each subgroup, who answers it, its figures and what gates say.

Terminal, JSON and pages show it alike: whatever is said of it stands in a field, and nothing has to be
worked out where it is shown.
"""

from dataclasses import dataclass

from registry.bundle.metrics.patient import Told
from registry.gate_report import GateReport

NOT_JUDGED = "not judged"
"""What stands where a gate does not apply: it has not looked, and so has let nothing pass."""


@dataclass(frozen=True)
class Answering:
    """Who answers for a subgroup, and on how many pictures that was tested.

    Attributes:
        version: the number of the version.
        own: whether it is the subgroup's own; False for the version for everybody.
        n: test pictures of the subgroup; None where it is not told, as the next two.
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
        candidate: under the candidate; None where nobody would answer this subgroup by name any more.
        change: candidate minus running, where both have a value.
        lost: whether the subgroup loses: its figure falls, or there is none any more.
    """

    figure: str
    called: str
    running: Told | None
    candidate: Told | None
    change: float | None
    lost: bool


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
    """The release that would result beside the one that runs.

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
