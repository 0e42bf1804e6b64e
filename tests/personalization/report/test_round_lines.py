"""What a report reads of a line of `metrics.jsonl`."""

from personalization.report.data import ClientBytes, Round

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
