"""Rendering the report: the template filled with tables and figures."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from personalization.report.answers import conclusions_table, release, triage_table
from personalization.report.calibration import (
    calibration_error_table,
    calibration_table,
    ood_table,
    served_table,
    tones_table,
    working_point_table,
)
from personalization.report.cases import harms, left_out_tables, pattern_tables
from personalization.report.data import FineTuning, ReportData
from personalization.report.figures import (
    bars,
    learning_curves,
    pseudo_label_curves,
    reliability,
)
from personalization.report.fine_tuning import (
    fine_tuning_curves,
    frontier_curves,
    frontier_key,
    frontier_table,
    selection_table,
)
from personalization.report.measures import FIRST, Measure, compared, measures_of, present, total
from personalization.report.overview import limits, overview
from personalization.report.peers import peer_maps, similarity_maps
from personalization.report.run_tables import (
    census_tables,
    client_tables,
    communication_tables,
    facts,
    probe_tables,
    silent_clients,
    stages_table,
)
from personalization.report.subgroups import (
    class_table,
    class_tables_over_clients,
    differences_table,
    figures_table,
    intersection_tables,
    recall_table,
    unseen_tables,
)
from personalization.report.svg import MUTED, KeyEntry, Panel, key_entry, series_colour
from registry.bundle.labels import malignant_classes
from registry.bundle.text import PAGE_FOLDER
from training.errors import DataError


def render_report(run: ReportData) -> str:
    """One self-contained HTML page: no script, no network, the same bytes for the same data.

    Raises:
        DataError: no stage has test counts, or a stage's counts are of no picture at all.
    """
    _check(run)
    last = list(run.counts)[-1]
    order, malignant = _subgroups(run), malignant_classes(run.labels)
    measures = measures_of(run.labels)
    shown, folded = measures[:FIRST], measures[FIRST:]
    template = _environment().get_template("report.html")
    return template.render(
        facts=facts(run),
        subtitle=" · ".join(f"{name} {value}" for name, value in facts(run) if name in ("Recipe", "Seed")),
        title=run.summary.get("job", "run"),
        overview=overview(run),
        release=release(run),
        last_stage=last,
        bars=_panels(shown, run, order),
        more_bars=_panels(folded, run, order),
        figures=figures_table(last, run.counts[last], shown, malignant),
        more_figures=[
            *(figures_table(last, run.counts[last], folded, malignant) for _ in range(bool(folded))),
            *(
                figures_table(stage, blocks, measures, malignant)
                for stage, blocks in reversed(list(run.counts.items())[:-1])
            ),
        ],
        recalls=recall_table(last, run.counts[last], run.labels),
        classes=class_table(last, run.counts[last], run.labels),
        at_clients=client_tables(run),
        classes_over_clients=class_tables_over_clients(run),
        unseen=unseen_tables(run),
        between_clients=(*peer_maps(run), *similarity_maps(run)),
        communication=communication_tables(run),
        personal=_personal(run.fine_tuning, order) if run.fine_tuning else None,
        differences=differences_table(run),
        intersections=intersection_tables(run),
        patterns=pattern_tables(run),
        left_out=left_out_tables(run),
        harms=tuple(harms(run)),
        probes=probe_tables(run),
        reliability=_reliability_panels(run, order),
        calibration=calibration_table(run.calibration) if run.calibration else None,
        tones=tones_table(run.claimed_tones),
        triage=triage_table(run.calibration, run.labels),
        conclusions=conclusions_table(run.calibration, run.counts[last], run.labels),
        working_point=working_point_table(run.calibration, run.counts[last], run.labels),
        served=served_table(run.calibration, run.counts[last]) if run.calibration else None,
        calibration_errors=calibration_error_table(run),
        ood=ood_table(run),
        curves=(*learning_curves(run.rounds, order), *pseudo_label_curves(run.rounds)),
        stages=stages_table(run),
        census=census_tables(run.census),
        notes=(*run.notes, *silent_clients(run.rounds)),
        limits=limits(run),
        key=_key(order),
    )


def _panels(measures: Sequence[Measure], run: ReportData, order: tuple[str, ...]) -> list[Panel]:
    malignant = malignant_classes(run.labels)
    return [panel for measure in measures if (panel := bars(measure, run.counts, order, malignant))]


def _personal(fine_tuning: FineTuning, order: tuple[str, ...]) -> dict[str, Any]:
    """What the section on personal models shows."""
    own = tuple(fine_tuning.accuracies) if fine_tuning.per == "client" else order
    return {
        "of": fine_tuning,
        "key": _key(own),
        "curves": fine_tuning_curves(fine_tuning, own),
        "selected": selection_table(fine_tuning),
        "price_key": frontier_key(fine_tuning),
        "price": frontier_curves(fine_tuning),
        "priced": frontier_table(fine_tuning),
    }


def _key(names: tuple[str, ...]) -> tuple[KeyEntry, ...]:
    return tuple(key_entry(name, index) for index, name in enumerate(names))


def _check(run: ReportData) -> None:
    if not run.counts:
        raise DataError("a report needs the test counts of at least one stage; evaluate before reporting")
    for stage, blocks in run.counts.items():
        if not present(blocks):
            raise DataError(
                f"the test counts of stage {stage!r} hold no picture; give the test split a larger share, "
                "or lower the job's minimum of pictures per block"
            )


def _subgroups(run: ReportData) -> tuple[str, ...]:
    """All subgroups but the undeclared one, in the order in which they first appear."""
    tested = [name for blocks in run.counts.values() for name in compared(blocks)]
    personal = run.fine_tuning
    fine_tuned = personal.accuracies if personal and personal.per == "subgroup" else ()
    return tuple(dict.fromkeys([*tested, *fine_tuned]))


def _reliability_panels(run: ReportData, order: tuple[str, ...]) -> list[Panel]:
    blocks = run.counts[list(run.counts)[-1]]
    panels = [reliability("all pictures", "all", total(blocks), MUTED)]
    return panels + [
        reliability(name, str(index), blocks[name], series_colour(index))
        for index, name in enumerate(order)
        if name in present(blocks)
    ]


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader([Path(__file__).parent, PAGE_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
