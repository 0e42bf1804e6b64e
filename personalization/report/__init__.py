"""The report of a run: one self-contained HTML page for engineers and clinicians.

`render_report(ReportData)` renders it: no script, no network, the same bytes for the same data.

run_report.py, data.py  from a run's result to plain records
page.py                 the template filled
overview.py, limits.py  the head of the page, and its caveats
tables/, table.py       tables, and their cells
figures/, svg.py        figures as inline SVG, and their colours
measures.py, served.py, numerals.py  what is shown, with intervals and units
comparison.py           comparison of several runs
"""

from personalization.report.data import (
    CalibratedModel,
    CensusCell,
    ClientBytes,
    FineTuning,
    ReportData,
    Round,
    StageFacts,
)
from personalization.report.page import render_report

__all__ = [
    "CalibratedModel",
    "CensusCell",
    "ClientBytes",
    "FineTuning",
    "ReportData",
    "Round",
    "StageFacts",
    "render_report",
]
