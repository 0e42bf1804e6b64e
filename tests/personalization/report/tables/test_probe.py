"""What a probe found, with intervals, over all pictures and in each subgroup."""

import pytest

from personalization.report.page import render_report
from personalization.report.run_tables import probe_tables
from registry.bundle.metrics.summary import summarise
from tests.personalization.report.conftest import LABELS


@pytest.fixture
def probed(report, block):
    """A report of one probe: two subgroups' pictures were answered linearly, those of one by neighbours."""
    linear = summarise({"light": block(40, 10, 80, 20), "dark": block(6, 4, 9, 5)}, LABELS, ("light", "dark"))
    near = summarise({"light": block(30, 20, 70, 30)}, LABELS, ("light", "dark"))
    return lambda facts=None: report("probe", facts or {"linear": linear, "neighbours": near})


def test_both_figures_have_a_line_for_all_and_for_each_subgroup(probed):
    (table,) = probe_tables(probed())
    rows = {row.header: row for row in table.rows}
    assert list(rows) == [
        "linear, all pictures",
        "linear, light",
        "linear, dark",
        "neighbours, all pictures",
        "neighbours, light",
    ]
    cells = dict(zip(table.columns[1:], rows["neighbours, light"].cells, strict=True))
    assert cells["test pictures"].text == "150"
    assert cells["sensitivity"].text == "0.600"
    assert cells["specificity"].text == "0.700"
    assert cells["AUROC of malignancy"].text == f"{0.6 * 0.7 + (0.6 * 0.3 + 0.4 * 0.7) / 2:.3f}"
    assert all(" to " in cells[name].note for name in ("sensitivity", "specificity", "AUROC of malignancy"))
    f1 = {name: row.cells[-1].text for name, row in rows.items()}
    assert f1["neighbours, all pictures"] == f"{(60 / 110 + 140 / 190) / 2:.3f}"
    assert f1["linear, light"] == "–", "told over all pictures alone"


def test_the_page_shows_them_and_no_others(probed, report):
    page = render_report(probed())
    assert '<h2 id="encoder">' in page
    assert "Of the encoder, by stage “probe”, with 95 % intervals" in page
    assert 'id="encoder"' not in render_report(report())
    assert probe_tables(report()) == ()
