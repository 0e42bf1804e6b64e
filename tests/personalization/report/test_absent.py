"""A run that has nothing to show in a table has no such table, and its page no such section."""

import pytest

from personalization.report.page import PARTS, render_report


@pytest.mark.parametrize(
    "part",
    [
        *("at_clients", "between_clients", "calibration_errors", "classes_over_clients", "communication"),
        *("differences", "intersections", "left_out", "ood", "patterns", "personal", "probes", "unseen"),
    ],
)
def test_there_is_no_table_of_nothing(part, report):
    assert not PARTS[part](report())
    assert not PARTS[part](report("export", {"bundles": 1}))


def test_the_page_of_a_plain_run_has_no_section_without_a_table(report, line):
    page = render_report(report(rounds=[line(1), line(2)]))
    for title in ("Communication of stage", "By what is given of a case", "Pictures unlike", "Similarity"):
        assert title not in page
