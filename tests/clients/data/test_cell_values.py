"""Values that cannot be read: what is proposed for them, and that they are listed by value with counts."""

import json
import shlex

import pytest

from clients.data.cell_values import UnreadCells, codes_option, propose, unread_facts
from clients.data.manifest import Row


@pytest.mark.parametrize(
    ("column", "value", "proposed"),
    [
        ("age", "85+", "85"),
        ("age", "≥85", "85"),
        ("age", "<20", "20"),
        ("age", "80-84", "82"),
        ("age", "40 – 45", "42.5"),
        ("age", "62,5", "62.5"),
        ("age", "085Y", "85"),
        ("age", "42 Jahre", "42"),
        ("age", "18M", "1.5"),
        ("age", "026W", "0.5"),
        ("age", "73d", "0.2"),
        ("age", "121", ""),
        ("age", "-1", ""),
        ("age", "51 J.", "51"),
        ("age", "45 Jahre alt", "45"),
        ("age", "eighty", ""),
        ("sex", "w", "female"),
        ("sex", "Männlich", "male"),
        ("sex", "weibl.", "female"),
        ("sex", "other", ""),
        ("site", "Rücken", "trunk"),
        ("site", "Unterschenkel", "lower_extremity"),
        ("site", "Oberarm li.", "upper_extremity"),
        ("site", "left ear", "head_neck"),
        ("site", "Fußsohle", "palms_soles"),
        ("site", "Handrücken", "hand"),
        ("site", "Mundschleimhaut", "oral_genital"),
        ("site", "Arm oder Bein", ""),
        ("site", "unbekannt", ""),
        ("label", "Basaliom", "Basaliom"),
        ("skin_tone", "Typ II", "II"),
        ("skin_tone", "Fitzpatrick skin type: 5", "5"),
        ("skin_tone", "7", ""),
    ],
)
def test_what_a_value_may_mean(column, value, proposed):
    assert propose(column, value) == proposed


def test_values_are_listed_once_with_how_many_pictures_have_them():
    ages = ["85+", "40", "85+", "", "85+", "x", "85+"]
    rows = [Row(f"{n}.jpg", site="back", extra={"age": age, "sex": "w"}) for n, age in enumerate(ages)]
    found = UnreadCells()
    unread_facts(rows, found)
    open_end, other, sex = found.lines
    assert open_end.startswith("age '85+' is no number; it is a number from 0 to 120 years, or empty: ")
    assert open_end.endswith("4 pictures (0.jpg, 2.jpg, 4.jpg, ...)")
    assert other.endswith("1 picture (5.jpg)")
    assert sex.startswith("sex 'w' ")
    assert found.codes == {"age": {"85+": "85", "x": ""}, "sex": {"w": "female"}}
    assert codes_option({"sex": {"männlich": "male"}}) == """--option 'codes={"sex": {"männlich": "male"}}'"""
    readable = UnreadCells()
    unread_facts([Row("a.jpg", site="back", extra={"age": "40"})], readable)
    assert not readable


def test_the_option_keeps_the_codes_that_there_are_and_holds_in_a_shell():
    given = codes_option({"age": {"l'an 40": "40"}}, {"label": {"m": "MEL"}, "age": {"85+": "85"}})
    _, option = shlex.split(given)
    codes = {"label": {"m": "MEL"}, "age": {"85+": "85", "l'an 40": "40"}}
    assert json.loads(option.removeprefix("codes=")) == codes


def test_what_is_not_mapped_is_listed_all_the_same():
    found = UnreadCells()
    found.add("patient_id", "x", "patient_id 'x' does not match", "a.jpg", mapped=False)
    assert found.lines
    assert found.codes == {}
