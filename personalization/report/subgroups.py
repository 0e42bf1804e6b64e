"""Tables of test figures: by subgroup and stage, disease, intersection, unseen client and pattern of cases.

What counts for a patient goes by subgroup, so that what a stage did to one stands in neighbouring lines; a
stage that changed no answer, as calibration does not, has no line. Differences between subgroups are at the
same mix of diseases, with p values.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import (
    ABSENT,
    ALL,
    FIRST,
    MEASURES,
    Blocks,
    Figures,
    auroc_is_of_malignancy,
    cell,
    cells,
    has_both_kinds,
    interval,
    label_name,
    measures_of,
    number,
    sides,
    unit_of,
    whole,
)
from registry.bundle.labels import kinds_of
from registry.bundle.metrics.intervals import sample_of
from registry.bundle.metrics.patient import ALL as ALL_IN_SUMMARY
from registry.bundle.metrics.patient import FIGURES, OF_A_KIND, TOO_FEW, told
from registry.bundle.metrics.summary import BY_CLASS
from registry.views.tables import Cell, Row, Table

OF_CLASSES = {"recall": "recall", "precision": "precision", "f1": "F1", "auroc": "AUROC", "auprc": "AUPRC"}
"""Names in `BY_CLASS`, and on the page."""

OF_CASES = {
    "malignancy_auroc": "AUROC of malignancy",
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
}
IN_A_CELL = ("accuracy", "balanced_accuracy", "malignant_sensitivity")


def patient_table(run: ReportData) -> Table:
    """The figures that count for a patient, of every subgroup after every stage that changed an answer."""
    stages = {stage: run.tested[stage] for stage in changed(run.counts)}
    names = dict.fromkeys(name for rows in stages.values() for name in rows if name != ALL)
    rows = []
    for name in (*names, ALL) if len(names) > 1 else names:
        before: float | None = None
        for stage, figures in stages.items():
            if name not in figures:
                continue
            row = figures[name]
            now = row["malignant_sensitivity"]
            first, *others = cells(row, FIGURES, unit=None)
            first = Cell(first.text, first.note, bad=_is_lost(run.summary, name, before, now))
            rows.append(Row.of(f"{name}: {stage}", first, *others, _pictures(run, row), total=name == ALL))
            before = now
    titles = (MEASURES[key].title for key in FIGURES)
    title = "What counts for a patient, after each stage, on the test split with 95 % intervals"
    return Table.of(title, ("subgroup: stage", *titles, "pictures"), rows)


def changed(stages: Mapping[str, Blocks]) -> list[str]:
    """The stages whose answers are not those of the stage before, picture for picture in sum."""
    answers = {
        stage: {name: block.point.confusion.tolist() for name, block in blocks.items()}
        for stage, blocks in stages.items()
    }
    before = [None, *answers.values()]
    return [stage for (stage, now), then in zip(answers.items(), before, strict=False) if now != then]


def _is_lost(summary: Mapping[str, Any], name: str, before: float | None, now: float | None) -> bool:
    """Whether the run found that a stage lowered a subgroup's sensitivity from this to that."""
    return any(
        one["kind"] == "lost_sensitivity"
        and one["subgroup"] == (ALL_IN_SUMMARY if name == ALL else name)
        and isclose(one["value"], now)
        and isclose(one["limit"], before)
        for one in summary.get("findings", ())
        if before is not None and now is not None
    )


def _pictures(run: ReportData, row: Figures) -> Cell:
    """How many pictures, and how many of them malignant where classes are of both kinds."""
    return Cell(whole(row["n"]), sides(row) if has_both_kinds(run.labels) else "")


def kinds_table(run: ReportData) -> Table:
    """Sensitivity and triage by kind of malignancy after the last stage; empty where there is one kind.

    A target over all malignant lesions is met by the kind that is common.
    """
    names = [name for name in run.figures if name != ALL or len(run.blocks) > 1]
    of_names = {name: by_kind(run, run.figures[name]) for name in names}
    rows = (
        Row.of(
            f"{name}: {kind}",
            *((whole(row["n"]), *cells(row, OF_A_KIND, "percent")) if row else _too_few(OF_A_KIND)),
            total=name == ALL,
        )
        for name, of_kinds in of_names.items()
        for kind, row in of_kinds.items()
        if all(of_names.values())
    )
    title = "Malignant pictures by kind, on the test split with 95 % intervals"
    return Table.of(title, ("subgroup: kind", "pictures", *OF_A_KIND.values()), rows)


def by_kind(run: ReportData, row: Figures) -> dict[str, Figures | None]:
    """What counts of each kind of malignancy; None of one without pictures, and nothing of a single kind."""
    kinds = kinds_of(run.labels)
    return {kind: row["by_kind"].get(kind) for kind in kinds} if "by_kind" in row and len(kinds) > 1 else {}


def _too_few(figures: Sequence[str] | Mapping[str, str]) -> list[str]:
    return [TOO_FEW, *[ABSENT] * len(figures)]


def figures_table(run: ReportData) -> Table:
    """The first measures of all subgroups after the last stage, all pictures last."""
    return _figures_table(run, run.last, measures_of(run.labels)[:FIRST])


def more_figures(run: ReportData) -> list[Table]:
    """The measures that are folded away, and all measures after each stage before, the latest first."""
    measures = measures_of(run.labels)
    earlier = (_figures_table(run, stage, measures) for stage in reversed(list(run.counts)[:-1]))
    return [_figures_table(run, run.last, measures[FIRST:]), *earlier]


def _figures_table(run: ReportData, stage: str, measures: Sequence[str]) -> Table:
    shown = run.tested[stage]
    keys = [key for key in measures if any(row.get(key) is not None for row in shown.values())]
    rows = (
        Row.of(name, _pictures(run, row), *cells(row, keys, unit=None), total=name == ALL)
        for name, row in shown.items()
    )
    titles = (MEASURES[key].title for key in keys)
    return Table.of(f"Figures after {stage}, with 95 % intervals", ("subgroup", "pictures", *titles), rows)


def recall_table(run: ReportData) -> Table:
    """The recall of every class in every subgroup."""
    rows = []
    for k, label in enumerate(run.labels):
        cells = []
        for block in (*run.blocks.values(), run.total):
            right, n = int(block.point.confusion[k, k]), int(block.point.confusion[k].sum())
            cells.append(Cell(number(right / n, "percent"), f"{right} of {n}") if n else Cell(ABSENT))
        rows.append(Row.of(label_name(label, malignancy=True), *cells))
    title = f"Recall of every disease after {run.last}: right answers of its pictures"
    return Table.of(title, ("disease", *run.blocks, ALL), rows)


def _of_classes(run: ReportData) -> dict[str, str]:
    """The figures of a class, without AUROC where it is that of malignancy, which other tables tell."""
    twice = auroc_is_of_malignancy(run.labels)
    return {key: title for key, title in OF_CLASSES.items() if not (twice and key == "auroc")}


def class_table(run: ReportData) -> Table:
    """Every class over all test pictures after the last stage, with 95 % intervals."""
    figures = _of_classes(run)
    sample = sample_of(run.total)
    found = [BY_CLASS[key].of_sample(sample).limits() for key in figures]
    rows = []
    for k, label in enumerate(run.labels):
        of_class = run.figures[ALL]["by_class"][label.code]
        ends = {key: limits[k].ends() for key, limits in zip(figures, found, strict=True)}
        row = {**of_class, "intervals": ends}
        rows.append(Row.of(label_name(label), whole(of_class["n"]), *cells(row, figures)))
    title = f"Figures of every disease after {run.last}, with 95 % intervals"
    return Table.of(title, ("disease", "pictures", *figures.values()), rows)


def class_tables_over_clients(run: ReportData) -> list[Table]:
    """Every class as a mean over the clients that have it, for each stage that reported it."""
    names = {label.code: label_name(label) for label in run.labels}
    figures = _of_classes(run)
    return [
        Table.of(
            f"Every disease after stage “{of.stage}”, as means over the clients that have it",
            ("disease", "clients", *figures.values()),
            (
                Row.of(names.get(code, code), whole(row["clients"]), *(number(row[key]) for key in figures))
                for code, row in of.facts["by_class"].items()
            ),
        )
        for of in run.told("by_class")
    ]


def unseen_tables(run: ReportData) -> list[Table]:
    """Recall, precision and F1 of each class, malignant first, of each client that was not trained on.

    One table for every stage that was evaluated on such clients (Bdair et al. 2022, Table 9).
    """
    tables = []
    for of in run.told("unseen"):
        rows: Mapping[str, Figures] = of.facts["unseen"]
        codes = dict.fromkeys(code for row in rows.values() for code in row["by_class"])
        classes = sorted(codes, key=lambda code: code != "malignant")
        figures = ("pictures", "recall", "precision", "F1")
        columns = (f"{code.lower()} {figure}" for code in classes for figure in figures)
        drawn = (
            Row.of(
                client,
                *(text for code in classes for text in _of_class(row["by_class"].get(code, {}))),
                *cells(row, ("auroc", "ece")),
            )
            for client, row in rows.items()
        )
        title = f"On clients never seen in training, after stage “{of.stage}”"
        tables.append(Table.of(title, ("client", *columns, "AUROC", "ECE"), drawn))
    return tables


def _of_class(row: Figures) -> list[str]:
    recall, precision = row.get("recall"), row.get("precision")
    return [whole(row.get("n", 0)), *map(number, (recall, precision, f1(recall, precision)))]


def f1(recall: float | None, precision: float | None) -> float | None:
    """2 recall · precision / (recall + precision); 0 where both are, None where either is not defined."""
    if recall is None or precision is None:
        return None
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


_SIGNIFICANT = 0.001
"""Below it a probability is only said to be below it: more digits than a bootstrap has draws are no news."""


def differences_table(run: ReportData) -> Table:
    """One row per pair of subgroups and figure; empty where the run compared no subgroups."""
    rows = (
        Row.of(
            " − ".join(one["between"]),
            figure_title(one["figure"]),
            Cell(number(one["value"], unit), interval(one.get("interval"), unit)),
            probability(one.get("p")),
            probability(one.get("p_adjusted")),
        )
        for one in run.last_test.get("differences") or ()
        for unit in ("points" if unit_of(one["figure"]) == "percent" else "ratio",)
    )
    columns = ("subgroups", "figure", "difference", "p", "p, adjusted")
    return Table.of("Differences between subgroups at one mix of diseases", columns, rows)


def figure_title(key: str) -> str:
    """`Balanced accuracy` of `balanced_accuracy` and of `balanced_accuracy_standardised`."""
    plain = key.removesuffix("_standardised")
    return MEASURES[plain].title if plain in MEASURES else plain.replace("_", " ").capitalize()


def probability(value: float | None) -> str:
    """A p value: three decimals, `< 0.001` below that."""
    if value is None:
        return ABSENT
    return f"<\u202f{_SIGNIFICANT}" if value < _SIGNIFICANT else f"{value:.3f}"


def intersection_tables(run: ReportData) -> list[Table]:
    """One table per column; one row per value of it and subgroup."""
    titles = [figure_title(key).lower() for key in IN_A_CELL]
    return [
        Table.of(
            f"Subgroups by {name}, with 95 % intervals",
            (f"{name}, subgroup", "pictures", *titles),
            (
                Row.of(
                    f"{value}, {subgroup}",
                    *((whole(row["n"]), *cells(row, IN_A_CELL, "percent")) if row else _too_few(IN_A_CELL)),
                )
                for value, by_subgroup in by_value.items()
                for subgroup, row in by_subgroup.items()
            ),
        )
        for column, by_value in (run.last_test.get("intersections") or {}).items()
        for name in (column.replace("_", " "),)
    ]


def pattern_tables(run: ReportData) -> list[Table]:
    """By what is given of a case, over all and for each subgroup; none of a job about single pictures."""
    patterns = _reported(run, "patterns")
    places = dict.fromkeys(place for of in patterns.values() for place in of["by_subgroup"])
    columns = ("given", "cases", *OF_CASES.values(), "coverage", "mean set size", "concluded")
    return [
        Table.of(
            _caption("By what is given", place),
            columns,
            (
                Row.of(
                    _spoken(name),
                    *_of_cases(row),
                    cell(row, "coverage", "percent"),
                    ABSENT if row.get("set_size") is None else f"{row['set_size']:.2f}",
                    cell(row, "reported", "percent"),
                )
                for name, of in patterns.items()
                if (row := _at(of, place))
            ),
        )
        for place in ((ALL, *places) if patterns else ())
    ]


def left_out_tables(run: ReportData) -> list[Table]:
    """With each part of a case left out, over all and for each subgroup; none of a job about pictures."""
    found = _reported(run, "left_out")
    return [
        Table.of(
            _caption("With parts left out", place),
            ("shown", "cases", *OF_CASES.values()),
            [
                Row.of("all that is known", *_of_cases(_at(run.last_test, place)), total=True),
                *(Row.of(f"without {part}", *_of_cases(_at(of, place))) for part, of in found.items()),
            ],
        )
        for place in ((ALL, *run.last_test.get("by_subgroup", {})) if found else ())
    ]


def harms(run: ReportData) -> Iterator[str]:
    """A sentence for each figure of a subgroup that is better without a part, its intervals apart."""
    for part, of in _reported(run, "left_out").items():
        for place in (ALL, *run.last_test.get("by_subgroup", {})):
            for key, title in OF_CASES.items():
                with_part, without = told(_at(run.last_test, place), key), told(_at(of, place), key)
                if with_part.interval and without.interval and without.interval[0] > with_part.interval[1]:
                    yield (
                        f"{part} harms {'all' if place == ALL else place}: {title} is {without.value:.3f} "
                        f"without and {with_part.value:.3f} with it."
                    )


def _reported(run: ReportData, what: str) -> Mapping[str, Any]:
    """What the last stage reported that has such facts; empty where none has."""
    return next((of.facts[what] for of in reversed(run.told(what))), {})


def _at(figures: Figures, place: str) -> Figures:
    """The figures of all cases or of a subgroup; empty where it has none."""
    found: Figures = figures if place == ALL else figures["by_subgroup"].get(place, {})
    return found


def _caption(title: str, place: str) -> str:
    return f"{title if place == ALL else f'{title}, {place}'}, with 95 % intervals"


def _spoken(pattern: str) -> str:
    """A pattern's name in words: `close-up, dermoscopic; all facts`."""
    *kinds, last = pattern.split("+")
    facts = {"some context": "some facts", "context": "all facts"}.get(last)
    return ", ".join((*kinds, last)) if facts is None else f"{', '.join(kinds)}; {facts}"


def _of_cases(row: Figures) -> list[str | Cell]:
    return [whole(int(row.get("n", 0))), *cells(row, OF_CASES)]
