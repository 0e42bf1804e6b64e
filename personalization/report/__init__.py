"""The report of a run: one self-contained HTML page for engineers and clinicians.

`page.render_report(data.report_data(result))` renders it: no script, no network, the same bytes for the same
data. Each part of the page is a function of the run's data that gives tables (`registry.views.tables`),
figures or sentences; `report.html` calls them.

data.py         what a finished run left, as plain records, with its test figures by stage and subgroup
measures.py     the measures shown, and how numbers and cells are written
overview.py     the head of the page, and its caveats
subgroups.py    test figures by subgroup, class, cell, client and pattern
calibration.py  what the release answers, thresholds, and what they come to
fine_tuning.py, run_tables.py                 epochs; the run, its traffic and its clients
figures.py, svg.py                            figures as inline SVG, and their colours
comparison.py   comparison of several runs
"""
