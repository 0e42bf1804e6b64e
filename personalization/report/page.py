"""Rendering the report: the template filled with what each part makes of the run."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, PrefixLoader

from personalization.report import calibration, figures, fine_tuning, overview, run_tables, subgroups
from personalization.report.data import ReportData
from personalization.report.measures import present
from registry.bundle.text import PAGE_FOLDER
from registry.views.tables import PAGE_OPTIONS
from training.errors import DataError

PARTS: Final[Mapping[str, Callable[[ReportData], Any]]] = {
    "facts": run_tables.facts,
    "verdict": overview.verdict,
    "cards": overview.cards,
    "patient": subgroups.patient_table,
    "kinds": subgroups.kinds_table,
    "unchanged": overview.unchanged,
    "spread": overview.spread_table,
    "release": calibration.release,
    "bars": figures.first_bars,
    "more_bars": figures.more_bars,
    "figures": subgroups.figures_table,
    "more_figures": subgroups.more_figures,
    "recalls": subgroups.recall_table,
    "classes": subgroups.class_table,
    "at_clients": run_tables.client_tables,
    "classes_over_clients": subgroups.class_tables_over_clients,
    "unseen": subgroups.unseen_tables,
    "between_clients": figures.maps,
    "communication": run_tables.communication_tables,
    "personal": fine_tuning.personal,
    "differences": subgroups.differences_table,
    "intersections": subgroups.intersection_tables,
    "patterns": subgroups.pattern_tables,
    "left_out": subgroups.left_out_tables,
    "harms": subgroups.harms,
    "probes": run_tables.probe_tables,
    "reliability": figures.reliability_diagrams,
    "calibration": calibration.calibration_table,
    "tones": calibration.tones_table,
    "triage": calibration.triage_table,
    "conclusions": calibration.conclusions_table,
    "working_point": calibration.working_point_table,
    "served": calibration.served_table,
    "calibration_errors": calibration.calibration_error_table,
    "ood": calibration.ood_table,
    "curves": figures.curves,
    "stages": run_tables.stages_table,
    "census": run_tables.census_tables,
    "notes": run_tables.notes,
    "limits": overview.limits,
    "key": figures.legend,
}
"""What the template draws, by the names that it has there."""


def render_report(run: ReportData) -> str:
    """One self-contained HTML page: no script, no network, the same bytes for the same data.

    Raises:
        DataError: no stage has test counts, or a stage's counts are of no picture at all.
    """
    if not run.counts:
        raise DataError("a report needs the test counts of at least one stage; evaluate before reporting")
    for stage, blocks in run.counts.items():
        if not present(blocks):
            raise DataError(
                f"the test counts of stage {stage!r} hold no picture; give the test split a larger share, "
                "or lower the job's minimum of pictures per block"
            )
    return (
        _environment()
        .get_template("report.html")
        .render({name: part(run) for name, part in PARTS.items()}, run=run)
    )


@cache
def _environment() -> Environment:
    folders = FileSystemLoader([Path(__file__).parent, PAGE_FOLDER])
    views = PrefixLoader({"views": PackageLoader("registry.views", ".")})
    return Environment(loader=ChoiceLoader([folders, views]), **PAGE_OPTIONS)
