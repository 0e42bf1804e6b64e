from personalization.report.calibration import ood_table

FACTS = {
    "threshold": 51.234567,
    "rate": 0.05,
    "n": 88,
    "trained_on": 1960,
    "classes": ["MEL", "NV"],
    "flagged": 0.071,
}


def test_one_row_per_model_that_learned_it(report):
    models = {
        "global": {"novelty": FACTS},
        "light": {"novelty": {**FACTS, "classes": ["NV"]}},
        "dark": {"novelty": {**FACTS, "threshold": None, "flagged": None, "n": 9}},
        "olive": {},
        "other": {"novelty": None},
    }
    table = ood_table(report("calibrate", {"models": models}))

    assert table.caption == "Pictures unlike those trained on"
    everybody, light, dark = table.rows
    assert [cell.text for cell in everybody.cells] == [
        "1\u202f960",
        "2 of 2",
        "88",
        "5.0\u202f%",
        "51.2",
        "7.1\u202f%",
    ]
    assert (light.cells[1].text, light.cells[1].note) == ("1 of 2", "without MEL")
    assert [cell.text for cell in dark.cells][-2:] == ["flags none", "–"]
