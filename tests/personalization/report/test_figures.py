"""

What a report reads of a line of `metrics.jsonl`.
"""

from personalization.report.data import ClientBytes, Round
from personalization.report.figures import pseudo_label_curves


def kept(**of):
    return {"scalars": {client: {"kept": value} for client, value in of.items()}}


def test_the_mean_and_the_range_over_clients_by_round(line):
    rounds = [
        line(1, models=kept(a=0.1, b=0.3)),
        line(2, models={"scalars": {"a": {"other": 1.0}}}),
        line(3, models=kept(a=0.5, b=0.8, c=0.8)),
    ]
    (panel,) = pseudo_label_curves(rounds)
    percent = "\u202f%"
    assert [(row.header, [cell.text for cell in row.cells]) for row in panel.numbers.rows] == [
        ("1", [f"20.0{percent}", f"10.0{percent}", f"30.0{percent}", "2"]),
        ("3", [f"70.0{percent}", f"50.0{percent}", f"80.0{percent}", "3"]),
    ]
    assert f"from 20.0{percent} to 70.0{percent}" in panel.svg


def test_nothing_kept_is_told_as_nothing(line):
    (panel,) = pseudo_label_curves([line(1, models=kept(a=0.0))])
    assert panel.numbers.rows[0].cells[0].text == "0.0\u202f%"


def test_each_stage_has_its_curve_and_others_have_none(line):
    rounds = [
        line(1, stage="pretrain"),
        line(1, stage="0-federate", models=kept(a=0.2)),
        line(1, stage="1-federate", models=kept(a=0.4)),
    ]
    titles = [panel.title for panel in pseudo_label_curves(rounds)]
    assert titles == ["Pseudo labels kept, 0-federate", "Pseudo labels kept, 1-federate"]


LINE = {
    "stage": "federate",
    "round": 11,
    "asked": ["a", "b"],
    "answered": ["a"],
    "models": {
        "global": {
            "exchange": {
                "a": {"peers": ["b", "c"], "similarity": [0.9, 0.8], "refused": ["d"]},
                "b": {"peers": [], "refused": ["a"]},
                "c": {},
            },
            "scalars": {"a": {"kept": 0.4}},
        },
        "dark": {"exchange": {"x": {"peers": ["y"]}}},
    },
    "bytes_by_client": {"a": {"down": 30, "beside": 20, "up": 10}, "b": {"down": 5, "up": 0}},
}


def test_peers_scalars_and_bytes_are_read():
    told = Round.from_line(LINE)
    assert told.peers == {"a": ("b", "c")}
    assert told.scalars == {"a": {"kept": 0.4}}
    assert told.bytes_by_client == {"a": ClientBytes(30, 20, 10), "b": ClientBytes(5, 0, 0)}
    assert told.bytes_by_client["a"].weights == 10
