"""The table of the patients behind each skin tone."""

from personalization.report.calibration import tones_table
from personalization.report.data import tones_of
from training.data.subgroups import ToneSubgroups


def test_every_tone_of_a_group_has_a_row_and_its_patients():
    groups = ToneSubgroups(scale="fitzpatrick", groups={"light": ("2",), "dark": ("V", "VI")})
    counted = {
        "calibration": {"fitzpatrick": {"2": 123, "5": 12}},
        "test": {"fitzpatrick": {"2": 200, "5": 14, "6": 11}},
    }
    table = tones_table(tones_of(groups, counted))
    assert [(row.header, *(cell.text for cell in row.cells)) for row in table.rows] == [
        ("2 (fitzpatrick)", "light", "123", "200"),
        ("5 (fitzpatrick)", "dark", "12", "14"),
        ("6 (fitzpatrick)", "dark", "too few", "11"),
    ]
    assert tones_table(()) is None
