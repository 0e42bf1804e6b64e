"""A run that has nothing to show in a table has no such table, and its page no such section."""

import pytest

from personalization.report import calibration, figures, fine_tuning, run_tables, subgroups
from personalization.report.page import render_report


@pytest.mark.parametrize(
    "part",
    [
        calibration.calibration_error_table,
        calibration.ood_table,
        figures.maps,
        fine_tuning.personal,
        run_tables.client_tables,
        run_tables.communication_tables,
        run_tables.probe_tables,
        subgroups.class_tables_over_clients,
        subgroups.differences_table,
        subgroups.intersection_tables,
        subgroups.left_out_tables,
        subgroups.pattern_tables,
        subgroups.unseen_tables,
    ],
)
def test_there_is_no_table_of_nothing(part, report):
    assert not part(report())
    assert not part(report("export", {"bundles": 1}))


def test_the_page_of_a_plain_run_has_no_section_without_a_table(report, line):
    page = render_report(report(rounds=[line(1), line(2)]))
    for title in ("Communication of stage", "By what is given of a case", "Pictures unlike", "Similarity"):
        assert title not in page
