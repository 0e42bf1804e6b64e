"""A run that has nothing to show in a table has no such table, and its page no such section."""

import pytest

from personalization.report.calibration import calibration_error_table, ood_table
from personalization.report.cases import left_out_tables, pattern_tables
from personalization.report.page import render_report
from personalization.report.peers import peer_maps, similarity_maps
from personalization.report.run_tables import client_tables, communication_tables, probe_tables
from personalization.report.subgroups import (
    class_tables_over_clients,
    differences_table,
    intersection_tables,
    unseen_tables,
)


@pytest.mark.parametrize(
    "tables",
    [
        calibration_error_table,
        class_tables_over_clients,
        client_tables,
        communication_tables,
        differences_table,
        intersection_tables,
        left_out_tables,
        ood_table,
        pattern_tables,
        peer_maps,
        probe_tables,
        similarity_maps,
        unseen_tables,
    ],
)
def test_there_is_no_table_of_nothing(tables, report):
    assert not tables(report())
    assert not tables(report("export", {"bundles": 1}))


def test_the_page_of_a_plain_run_has_no_section_without_a_table(report, line):
    page = render_report(report(rounds=[line(1), line(2)]))
    for title in ("Communication of stage", "By what is given of a case", "Pictures unlike", "Similarity"):
        assert title not in page
