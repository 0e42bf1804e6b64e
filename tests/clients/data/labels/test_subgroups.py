import numpy as np
import pytest

from clients.data.errors import SubgroupError
from clients.data.manifest import Row
from clients.data.subgroups import UNDECLARED, assign_subgroups
from training.data.subgroups import ColumnSubgroups, ToneSubgroups, ToneSubgroupsOverScales

ROWS = [
    Row("a", skin_tone="1", skin_tone_scale="fitzpatrick"),
    Row("b", skin_tone="6", skin_tone_scale="fitzpatrick"),
    Row("c", skin_tone="6", skin_tone_scale="monk"),
    Row("d", skin_tone="7", skin_tone_scale="monk"),
    Row("e", skin_tone="4", skin_tone_scale="fitzpatrick"),
    Row("f", skin_tone="4", skin_tone_scale="fitzpatrick"),
    Row("g", skin_tone="12", skin_tone_scale="ddi"),
    Row("h", site="trunk"),
]


def test_tones_that_no_group_names_are_counted_by_why():
    config = ToneSubgroups(scale="fitzpatrick", groups={"light": ("I", "2"), "dark": ("VI",)})
    grouping = assign_subgroups(ROWS, config)
    assert grouping.names == ("light", "dark")
    assert grouping.members.tolist() == [0, 1] + [UNDECLARED] * 6
    assert grouping.reasons == (
        *("", "", "scale monk", "scale monk", "tone fitzpatrick 4", "tone fitzpatrick 4", "scale ddi"),
        "no_tone",
    )


def test_a_column_counts_empty_values_and_those_that_unseen_pictures_alone_have():
    rows = [Row("a", site="trunk"), Row("b"), Row("c"), Row("d", site="arm")]
    seen = [True, True, True, False]
    grouping = assign_subgroups(rows, ColumnSubgroups(column="site"), np.array(seen))
    assert (grouping.names, grouping.members.tolist()) == (("trunk",), [0, -1, -1, -1])
    assert grouping.reasons == ("", "no_value", "no_value", "other_value")


@pytest.mark.parametrize("config", [None, ToneSubgroups(scale="monk", groups={"some": ("6", "7")})])
def test_where_every_tone_has_its_group_or_none_is_asked_for_nothing_is_counted(config):
    assert not any(assign_subgroups(ROWS[2:4], config).reasons)


def test_a_group_has_its_values_of_every_scale_it_names_and_no_others():
    config = ToneSubgroupsOverScales(
        groups={"dark": {"fitzpatrick": ("V", "VI"), "monk": ("6",)}, "light": {"fitzpatrick": ("1",)}}
    )
    other = [
        *ROWS[:3],
        ROWS[4],
        Row("e", extra={"clinic": "x"}),
        Row("f", skin_tone="1", skin_tone_scale="monk"),
        Row("g", skin_tone="6", skin_tone_scale="ddi"),
    ]
    grouping = assign_subgroups(other, config)
    assert grouping.names == ("dark", "light")
    assert grouping.members.tolist() == [1, 0, 0, -1, -1, -1, -1]
    assert grouping.reasons[3:] == ("tone fitzpatrick 4", "no_tone", "tone monk 1", "scale ddi")


def test_without_subgroups_all_are_undeclared():
    grouping = assign_subgroups(ROWS, None)
    assert grouping.names == ()
    assert set(grouping.members.tolist()) == {-1}


@pytest.mark.parametrize(
    ("config", "match"),
    [
        (
            ToneSubgroups(scale="fitzpatrick", groups={"light": ("1",), "mid": ("3",)}),
            "subgroup mid .scale fitzpatrick.; .*fitzpatrick 1: 1, .*monk 6: 1, .*undeclared: 1",
        ),
        (
            ToneSubgroupsOverScales(groups={"light": {"fitzpatrick": ("1",)}, "mid": {"monk": ("1",)}}),
            "subgroup mid .scales fitzpatrick and monk.; .*monk 6: 1",
        ),
        (ColumnSubgroups(column="patient_id"), "'patient_id' is empty"),
    ],
)
def test_what_fits_nobody_is_refused(config, match):
    with pytest.raises(SubgroupError, match=match):
        assign_subgroups(ROWS, config)
