"""The report of a run: one HTML page that needs no network, for an engineer and a clinician alike.

`render_report(ReportData)` is the whole of it. Within: `data` is what goes in, `measures` computes every
figure with its interval from counts, `overview`, `tables` and `figures/` turn them into what is shown, and
`page` fills the template `report.html` with it. Figures are inline SVG in the colours of `report.css`.
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
