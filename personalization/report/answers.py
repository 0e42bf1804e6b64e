"""What a release answers: who is ruled out, urgent or concluded, for each subgroup, and how surely.

The first block of the report says it in sentences, first what the release does and then what it does not; two
tables have the counts of calibration behind it, and those of the test.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from personalization.calibration.at_thresholds import LEVEL, fewest_needed
from personalization.calibration.triage import TriageFit
from personalization.report.calibration import decided, routes
from personalization.report.data import CalibratedModel, ReportData
from personalization.report.measures import (
    Cell,
    Estimate,
    Row,
    Table,
    listed,
    number,
    present,
    threshold,
    total,
    whole,
    with_interval,
)
from registry.bundle.conclusions import NodeRule, Tree
from registry.bundle.counts.counting import Block
from registry.bundle.counts.lesions import LesionSums
from registry.bundle.counts.score_bins import LOGIT_BINS, SCORE_BINS
from registry.bundle.labels import Label, kinds_of
from training.messages.message import GLOBAL


@dataclass(frozen=True)
class Release:
    """What a release does and what it does not, in sentences.

    Attributes:
        does: for each subgroup of which something is said, what.
        does_not: for the others, and what is missing of these.
    """

    does: tuple[tuple[str, tuple[str, ...]], ...] = ()
    does_not: tuple[str, ...] = ()


def release(run: ReportData) -> Release:
    """What the models of the last stage answer on the test split, by subgroup."""
    blocks = present(list(run.counts.values())[-1])
    answered_by = routes(run.calibration, blocks)
    does: list[tuple[str, tuple[str, ...]]] = []
    does_not: list[str] = []
    for subgroup, model in answered_by.items():
        of_scales = [f"{scale} {', '.join(tones)}" for scale, tones in run.tones.get(subgroup, {}).items()]
        name = f"{subgroup} ({'; '.join(of_scales)})" if of_scales else subgroup
        block, kinds = blocks[subgroup], kinds_of(run.labels)
        if model.subgroup == GLOBAL and of_scales:
            does_not.append(
                f"{name}: it has no model of its own. Where this skin tone is declared, the model for all "
                "answers, and rules nothing out and concludes nothing benign."
            )
            continue
        said = tuple(_does(block, model, kinds))
        does += [(name, said)] if said else []
        does_not += _does_not(name, block, model, kinds)
    return Release(tuple(does), tuple(does_not))


def _does(block: Block, model: CalibratedModel, names: Sequence[str]) -> Iterator[str]:
    triage, kinds = model.triage, block.kinds
    if triage is not None and kinds is not None:
        if kinds.ruled_out.x[0]:
            yield (
                f"rules out {_share(kinds.ruled_out[:1])} of the lesions that are not malignant, and at most "
                f"{number(triage.missed, 'percent')} of each kind of malignancy "
                f"(in the test {_by_kind(kinds.ruled_out[1:], names)})"
            )
        if kinds.urgent[1:].total.x[0]:
            yield (
                f"calls {_share(kinds.urgent[1:].total)} of the malignant lesions urgent "
                f"({_by_kind(kinds.urgent[1:], names)}), and at most "
                f"{number(triage.false_alarms, 'percent')} of the others"
            )
    if (found := _concluded(block)).value:
        yield (
            f"concludes something of {with_interval(found, 'percent')} of all lesions, and each conclusion "
            f"is wrong in at most {number(model.conclusions.target_risk, 'percent')}"
        )


def _concluded(block: Block) -> Estimate:
    return Estimate.in_summary(decided({"": block}), "reported")


def _by_kind(sums: LesionSums, names: Sequence[str]) -> str:
    counts = zip(names, sums.x.tolist(), sums.n.tolist(), strict=True)
    return listed([f"{kind} {whole(x)} of {whole(n)}" for kind, x, n in counts if n])


def _does_not(name: str, block: Block, model: CalibratedModel, kinds: Sequence[str]) -> Iterator[str]:
    triage, counted = model.triage, block.kinds
    if triage is not None and counted is not None:
        if not counted.ruled_out.x[0]:
            yield f"{name}: nothing is ruled out. {_why_not(triage, kinds)}"
        if not counted.urgent[1:].total.x[0]:
            yield (
                f"{name}: no malignant lesion is called urgent. "
                f"{whole(triage.urgent.false_alarms.n)} lesions that are not malignant were in calibration."
            )
    if not _concluded(block).value:
        yield (
            f"{name}: nothing is concluded. Of no diagnosis or group was it shown that at most "
            f"{number(model.conclusions.target_risk, 'percent')} of its conclusions would be wrong."
        )


def _why_not(triage: TriageFit, kinds: Sequence[str]) -> str:
    """Which kinds have too few calibration lesions to show so few misses."""
    beta = triage.missed
    needed = fewest_needed(beta)
    few = [
        f"{kind} ({whole(share.n)})"
        for kind, share in zip(kinds, triage.ruled_out.missed, strict=True)
        if share.n < needed
    ]
    if few:
        return (
            f"To show that at most {number(beta, 'percent')} of a kind of malignancy are missed takes "
            f"{needed} calibration lesions of it, and there were fewer of: {listed(few)}."
        )
    return (
        f"No threshold was shown to miss at most {number(beta, 'percent')} of each kind of malignancy and "
        "to rule out any other lesion."
    )


def triage_table(models: Sequence[CalibratedModel], labels: Sequence[Label]) -> Table | None:
    """The limits of triage that calibration has shown, by model and kind; None of a run without triage."""
    kinds = kinds_of(labels)
    rows = [
        Row(
            model.subgroup,
            (
                Cell("nothing" if not fit.ruled_out.below else _probability(fit.ruled_out.below)),
                *(
                    Cell(f"{whole(share.x)} of {whole(share.n)}", f"at most {number(share.high, 'percent')}")
                    for share in fit.ruled_out.missed
                ),
                Cell("nothing" if fit.urgent.from_bin == SCORE_BINS else _probability(fit.urgent.from_bin)),
                Cell(
                    f"{whole(fit.urgent.false_alarms.x)} of {whole(fit.urgent.false_alarms.n)}",
                    f"at most {number(fit.urgent.false_alarms.high, 'percent')}",
                ),
            ),
        )
        for model in models
        if (fit := model.triage) is not None
    ]
    columns = (
        "model",
        "ruled out below",
        *(f"missed, {kind}" for kind in kinds),
        "urgent from",
        "urgent among others",
    )
    title = f"Triage: what calibration has shown, each limit at {number(LEVEL, 'percent')}"
    return Table(title, columns, tuple(rows)) if rows else None


def conclusions_table(
    models: Sequence[CalibratedModel], blocks: Mapping[str, Block], labels: Sequence[Label]
) -> Table | None:
    """The conclusions that may be drawn, by model, with what they come to on the test split.

    Args:
        models: what calibration fixed.
        blocks: test counts of the released models per subgroup.
        labels: the classes.

    Returns:
        The table; None where nothing is concluded.
    """
    tree, shown = Tree(labels), present(blocks)
    answered_by = routes(models, shown)
    rows = []
    for model in models:
        own = {name: shown[name] for name, by in answered_by.items() if by.subgroup == model.subgroup}
        counts = total(own).nodes if own else None
        for place, node in enumerate(tree.nodes):
            rule = model.conclusions.rule_of(node)
            n, wrong = (0, 0) if counts is None else counts[place].tolist()
            if rule is None and not n:
                continue
            cells = (
                *_rule(rule),
                Cell(f"{whole(wrong)} of {whole(n)}") if n else Cell("none"),
            )
            rows.append(Row(f"{model.subgroup}: {node.name}", (Cell(node.level), *cells)))
    columns = ("model: conclusion", "level", "from", "wrong in calibration", "wrong in the test")
    return (
        Table(
            f"Conclusions: all limits of a model together at {number(LEVEL, 'percent')}", columns, tuple(rows)
        )
        if rows
        else None
    )


def _rule(rule: NodeRule | None) -> tuple[Cell, Cell]:
    if rule is None:
        return Cell("by pattern"), Cell("–")
    return (
        Cell(_probability(rule.threshold_bin)),
        Cell(f"{whole(rule.wrong)} of {whole(rule.n)}", f"at most {number(rule.risk_high, 'percent')}"),
    )


def _probability(threshold_bin: int) -> str:
    return threshold(LOGIT_BINS.lower(threshold_bin))


def _share(sums: LesionSums) -> str:
    return with_interval(Estimate.of_sums(sums), "percent")
