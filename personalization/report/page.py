"""Rendering the report: the template draws what the functions of these modules make of the run."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from personalization.report import calibration, figures, fine_tuning, overview, run_tables, subgroups
from personalization.report.data import ReportData
from personalization.report.measures import present
from registry.bundle.text import PAGE_FOLDER
from registry.views.tables import environment
from training.errors import DataError

PARTS = {
    "overview": overview,
    "subgroups": subgroups,
    "calibration": calibration,
    "figures": figures,
    "fine_tuning": fine_tuning,
    "run_tables": run_tables,
}
"""What the template calls: functions of a run that give tables, figures and sentences."""


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
    return _environment().get_template("report.html").render(run=run, **PARTS)


@cache
def _environment() -> Environment:
    # Explanations may be longer than what is shown of texts that others wrote.
    return environment(FileSystemLoader([Path(__file__).parent, PAGE_FOLDER]), finalize=None)
