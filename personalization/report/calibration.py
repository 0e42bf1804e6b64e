"""What a release answers and how surely: its thresholds, what calibration has shown of them, and the test.

The first block of the report says in sentences what the release does and what it does not, for each subgroup.
A figure over several subgroups adds what the thresholds of each one's own model do there, as the service
would: a subgroup without a model of its own is answered by the global one. Clients count that exactly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from personalization.calibration.at_thresholds import LEVEL, fewest_needed
from personalization.calibration.conformal import examples_needed
from personalization.calibration.triage import TriageFit
from personalization.report.data import CalibratedModel, ReportData
from personalization.report.measures import (
    ABSENT,
    ALL,
    Figures,
    cell,
    cells,
    figures_of,
    interval,
    listed,
    number,
    share,
    threshold,
    whole,
    with_interval,
)
from registry.bundle.conclusions import Tree
from registry.bundle.counting import Block
from registry.bundle.labels import kinds_of
from registry.bundle.lesion_counts import LesionSums
from registry.bundle.metrics import selective
from registry.bundle.metrics.patient import AT_WORKING_POINT, Told, told
from registry.bundle.metrics.summary import MALIGNANCY
from registry.bundle.score_bins import SCORE_BINS
from registry.views.tables import Cell, Row, Table
from training.messages import GLOBAL


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
    does: list[tuple[str, tuple[str, ...]]] = []
    does_not: list[str] = []
    for subgroup, model in run.answered_by.items():
        of_scales = [f"{scale} {', '.join(tones)}" for scale, tones in run.tones.get(subgroup, {}).items()]
        name = f"{subgroup} ({'; '.join(of_scales)})" if of_scales else subgroup
        if model.subgroup == GLOBAL and of_scales:
            does_not.append(
                f"{name}: it has no model of its own. Where this skin tone is declared, the model for all "
                "answers, and rules nothing out and concludes nothing benign."
            )
            continue
        said = list(_said(run.blocks[subgroup], told(run.figures[subgroup], "reported"), model, run))
        if of_it := tuple(text for text, is_done in said if is_done):
            does.append((name, of_it))
        does_not += [f"{name}: {text}" for text, is_done in said if not is_done]
    return Release(tuple(does), tuple(does_not))


def _said(
    block: Block, concluded: Told, model: CalibratedModel, run: ReportData
) -> Iterator[tuple[str, bool]]:
    """What is ruled out, urgent and concluded, each with whether it is at all, or why it is not."""
    names, triage, kinds = kinds_of(run.labels), model.triage, block.kinds
    if triage is not None and kinds is not None:
        if kinds.ruled_out.x[0]:
            yield (
                f"rules out {_share(kinds.ruled_out[:1])} of the lesions that are not malignant, and at most "
                f"{number(triage.missed, 'percent')} of each kind of malignancy "
                f"(in the test {_by_kind(kinds.ruled_out[1:], names)})",
                True,
            )
        else:
            yield f"nothing is ruled out. {_why_not(triage, names)}", False
        if kinds.urgent[1:].total.x[0]:
            yield (
                f"calls {_share(kinds.urgent[1:].total)} of the malignant lesions urgent "
                f"({_by_kind(kinds.urgent[1:], names)}), and at most "
                f"{number(triage.false_alarms, 'percent')} of the others",
                True,
            )
        else:
            yield (
                "no malignant lesion is called urgent. "
                f"{whole(triage.urgent.false_alarms.n)} lesions that are not malignant were in calibration.",
                False,
            )
    risk = number(model.conclusions.target_risk, "percent")
    if concluded.value:
        yield (
            f"concludes something of {with_interval(concluded, 'percent')} of all lesions, and each "
            f"conclusion is wrong in at most {risk}",
            True,
        )
    else:
        yield (
            "nothing is concluded. Of no diagnosis or group was it shown that at most "
            f"{risk} of its conclusions would be wrong.",
            False,
        )


def _share(sums: LesionSums) -> str:
    low, high = selective.share_interval(sums) or (0.0, 1.0)
    return with_interval(Told(selective.mean_of(sums), (low, high)), "percent")


def _by_kind(sums: LesionSums, names: Sequence[str]) -> str:
    counts = zip(names, sums.x.tolist(), sums.n.tolist(), strict=True)
    return listed([f"{kind} {share(x, n)}" for kind, x, n in counts if n])


def _why_not(triage: TriageFit, kinds: Sequence[str]) -> str:
    """Which kinds have too few calibration lesions to show so few misses."""
    missed, needed = number(triage.missed, "percent"), fewest_needed(triage.missed)
    of_kinds = zip(kinds, triage.ruled_out.missed, strict=True)
    if few := [f"{kind} ({whole(of.n)})" for kind, of in of_kinds if of.n < needed]:
        return (
            f"To show that at most {missed} of a kind of malignancy are missed takes "
            f"{needed} calibration lesions of it, and there were fewer of: {listed(few)}."
        )
    return (
        f"No threshold was shown to miss at most {missed} of each kind of malignancy and to rule out any "
        "other lesion."
    )


def triage_table(run: ReportData) -> Table:
    """The limits of triage that calibration has shown, by model and kind; empty without triage."""
    rows = (
        Row.of(
            model.subgroup,
            threshold(fit.ruled_out.below) if fit.ruled_out.below else "nothing",
            *(_shown(of.x, of.n, of.high) for of in fit.ruled_out.missed),
            "nothing" if fit.urgent.from_bin == SCORE_BINS else threshold(fit.urgent.from_bin),
            _shown(fit.urgent.false_alarms.x, fit.urgent.false_alarms.n, fit.urgent.false_alarms.high),
        )
        for model in run.calibration
        if (fit := model.triage) is not None
    )
    missed = (f"missed, {kind}" for kind in kinds_of(run.labels))
    title = f"Triage: what calibration has shown, each limit at {number(LEVEL, 'percent')}"
    columns = ("model", "ruled out below", *missed, "urgent from", "urgent among others")
    return Table.of(title, columns, rows)


def _shown(x: int, n: int, high: float) -> Cell:
    return Cell(share(x, n), f"at most {number(high, 'percent')}")


def conclusions_table(run: ReportData) -> Table:
    """The conclusions that may be drawn, by model, with what they come to on the test split."""
    rows = []
    for model in run.calibration:
        own = [run.blocks[name] for name, by in run.answered_by.items() if by.subgroup == model.subgroup]
        counts = reduce(add, own).nodes if own else None
        for place, node in enumerate(Tree(run.labels).nodes):
            rule = model.conclusions.rule_of(node)
            n, wrong = (0, 0) if counts is None else counts[place].tolist()
            if rule is None and not n:
                continue
            shown: tuple[str, Cell | str] = ("by pattern", ABSENT)
            if rule is not None:
                shown = (threshold(rule.threshold_bin), _shown(rule.wrong, rule.n, rule.risk_high))
            tested = share(wrong, n) if n else "none"
            rows.append(Row.of(f"{model.subgroup}: {node.name}", node.level, *shown, tested))
    title = f"Conclusions: all limits of a model together at {number(LEVEL, 'percent')}"
    columns = ("model: conclusion", "level", "from", "wrong in calibration", "wrong in the test")
    return Table.of(title, columns, rows)


def calibration_table(run: ReportData) -> Table:
    """One row per calibrated model."""
    title = "What calibration fixed"
    if any(model.basis == "cross-fitted" for model in run.calibration):
        title += ", on training lesions, each scored by a model that was not trained on it (cross-fitted)"
    rows = []
    for model in run.calibration:
        sets, temperature = model.conformal, model.temperature
        fitted, asked = temperature.fitted, number(sets.coverage, "percent")
        promised = Cell("none", f"{asked} needs {examples_needed(sets.coverage)} pictures")
        if sets.guaranteed:
            promised = Cell(asked, f"expected {number(sets.expected_coverage, 'percent')}")
        rows.append(
            Row.of(
                model.subgroup,
                whole(sets.n),
                Cell(
                    f"{temperature.value:.2f}",
                    "global: too few pictures" if fitted is None else f"own fit {fitted:.2f}",
                ),
                threshold(sets.threshold_bin) if sets.guaranteed else "every class",
                promised,
            )
        )
    columns = ("model", "calibration pictures", "temperature", "in the set from", "coverage promised")
    return Table.of(title, columns, rows)


def tones_table(run: ReportData) -> Table:
    """The patients of each skin tone of a subgroup; empty where they were not counted."""
    rows = (
        Row.of(
            one.called,
            one.subgroup,
            *("too few" if n is None else whole(n) for n in (one.calibration, one.test)),
        )
        for one in run.claimed_tones
    )
    title = "Patients by skin tone: where they are too few, the model for everybody answers"
    return Table.of(title, ("skin tone", "subgroup", "patients in calibration", "patients in test"), rows)


def _answered(run: ReportData) -> Iterator[tuple[str, CalibratedModel | None, list[Block], Figures]]:
    """Each subgroup that a model answers with it, its counts and figures there; then all of them together."""
    blocks = {name: run.blocks[name] for name in run.answered_by}
    for name, model in run.answered_by.items():
        yield name, model, [blocks[name]], run.figures[name]
    if blocks:
        yield ALL, None, list(blocks.values()), figures_of(blocks.values(), run.labels)


def served_table(run: ReportData) -> Table:
    """One row per subgroup and one for all, routed as the service routes."""
    rows = (
        Row.of(
            name,
            whole(row["n"]),
            ABSENT if model is None else model.subgroup,
            cell(row, "coverage", "percent"),
            _set_size(told(row, "set_size")),
            *cells(row, ("answered", "reported", "reported_risk"), "percent"),
            total=model is None,
        )
        for name, model, _, row in _answered(run)
    )
    columns = (
        *("subgroup", "pictures", "answered by the model", "coverage", "mean set size"),
        *("concluded, urgent or ruled out", "concluded", "wrong among conclusions"),
    )
    return Table.of("What it comes to on the test split, with 95 % intervals", columns, rows)


def _set_size(found: Told) -> Cell:
    if found.value is None:
        return Cell(ABSENT)
    return Cell(f"{found.value:.2f}", " to ".join(f"{end:.2f}" for end in found.interval or ()))


def working_point_table(run: ReportData) -> Table:
    """Sensitivity and specificity of every subgroup at the working point, and by the most probable class.

    Empty where no model has a working point.
    """
    rows = []
    for name, model, blocks, row in _answered(run):
        counted = (0, 0)
        if all(block.decisions is not None for block in blocks):
            sums = reduce(add, (block.decisions for block in blocks if block.decisions is not None))
            counted = int(sums.suspicious.n[0]), int(sums.cleared.n[0])
        rows.append(
            Row.of(
                name,
                *((ABSENT, ABSENT) if model is None else _point(model)),
                *(_of(told(row, key), n) for key, n in zip(AT_WORKING_POINT, counted, strict=True)),
                *cells(row, MALIGNANCY, "percent"),
                total=model is None,
            )
        )
    has_any = any(model.working_point for model in run.answered_by.values())
    caption = "The working point on the test split, beside the most probable class, with 95 % intervals"
    columns = (
        *("subgroup", "suspicious from", "sensitivity promised", "malignant found suspicious"),
        *("others not suspicious", "malignant answered as such", "others answered as such"),
    )
    return Table.of(caption, columns, rows if has_any else ())


def _point(model: CalibratedModel) -> tuple[Cell, Cell]:
    if (point := model.working_point) is None:
        return Cell("none"), Cell("none", "no malignant calibration lesion")
    note = f"{whole(point.n)} malignant lesions"
    if model.subgroup == GLOBAL:
        note += ", for everybody together"
    if not point.reached:  # so many show the target where none of them is missed
        needed = whole(fewest_needed(1 - point.target, point.level))
        note += f"; {number(point.target, 'percent')} needs {needed}"
    return (
        Cell(threshold(point.threshold_bin), model.subgroup),
        Cell(number(point.sensitivity_low, "percent"), note),
    )


def _of(found: Told, n: int) -> Cell:
    """A share with its interval, and of how many pictures; in words where there are none."""
    if not n:
        return Cell(ABSENT, "no such test pictures")
    return Cell(number(found.value, "percent"), f"{interval(found.interval, 'percent')}; of {whole(n)}")


def calibration_error_table(run: ReportData) -> Table:
    """Both errors before and after the last calibration; empty where there was none to compare."""
    stages = list(run.counts)
    calibrated = [of.stage for of in run.facts if of.kind == "calibrate" and of.stage in stages[1:]]
    after = calibrated[-1] if calibrated else stages[0]
    before = stages[max(stages.index(after) - 1, 0)]
    earlier, later = run.tested[before], run.tested[after]
    rows = (
        Row.of(
            name,
            whole(row["n"]),
            *(cell(of.get(name, {}), error) for error in ("ece", "mce") for of in (earlier, later)),
            total=name == ALL,
        )
        for name, row in later.items()
        if calibrated
    )
    columns = ("subgroup", "pictures", "ECE before", "ECE after", "MCE before", "MCE after")
    title = f"Calibration error after {before} and after {after}, with 95 % intervals"
    return Table.of(title, columns, rows)


def ood_table(run: ReportData) -> Table:
    """One row per model with a detector; empty where none has one."""
    codes = [label.code for label in run.labels]
    rows = []
    for of in run.facts:
        for name, model in (of.facts.get("models") or {}).items():
            if not (found := model.get("novelty")):
                continue
            missing, beyond = [code for code in codes if code not in found["classes"]], found["threshold"]
            known = f"{len(found['classes'])} of {len(codes)}"
            rows.append(
                Row.of(
                    name,
                    whole(found["trained_on"]),
                    Cell(known, f"without {listed(missing)}" if missing else ""),
                    whole(found["n"]),
                    number(found["rate"], "percent"),
                    Cell("flags none", "too few pictures") if beyond is None else f"{beyond:.1f}",
                    number(found.get("flagged"), "percent"),
                )
            )
    columns = (
        *("model", "trained on pictures", "of classes", "calibration pictures"),
        *("of known pictures flagged, at most", "flagged above distance", "flagged on test"),
    )
    return Table.of("Pictures unlike those trained on", columns, rows)
