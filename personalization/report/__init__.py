"""The report of a run: one self-contained HTML page for engineers and clinicians.

`page.render_report(data.report_data(result))` renders it: no script, no network, the same bytes for the same
data.

data.py         what a finished run left, as plain records
measures.py     metrics with their intervals, how numbers are written, and the cells of tables
page.py         the template filled
overview.py     the head of the page, and its caveats; answers.py, what the release does
patients.py, subgroups.py, cases.py           test metrics by subgroup, class, cell and pattern
calibration.py  thresholds, and what they come to
fine_tuning.py, run_tables.py                 epochs; the run, its traffic and its clients
figures.py, peers.py, svg.py                  figures as inline SVG, and their colours
comparison.py   comparison of several runs
"""
