import pytest

from clients.data.errors import SubgroupError
from clients.data.labels.label_map import Undeclared
from clients.data.labels.subgroups import assign_subgroups
from clients.data.manifests.manifest import Row
from training.data.subgroups import (
    ColumnSubgroups,
    ToneSubgroups,
    ToneSubgroupsOverScales,
)

ROWS = [
    Row("a", skin_tone="1", skin_tone_scale="fitzpatrick"),
    Row("b", skin_tone="6", skin_tone_scale="fitzpatrick"),
    Row("c", skin_tone="6", skin_tone_scale="monk"),
    Row("d", skin_tone="4", skin_tone_scale="fitzpatrick"),
    Row("e", extra={"clinic": "x"}),
]


def test_tones_of_another_scale_and_no_group_are_undeclared():
    config = ToneSubgroups(scale="fitzpatrick", groups={"light": ("I", "2"), "dark": ("VI",)})
    grouping = assign_subgroups(ROWS, config)
    assert grouping.names == ("light", "dark")
    assert grouping.members.tolist() == [0, 1, -1, -1, -1]


def test_a_group_has_its_values_of_every_scale_it_names_and_no_others():
    config = ToneSubgroupsOverScales(
        groups={"dark": {"fitzpatrick": ("V", "VI"), "monk": ("6",)}, "light": {"fitzpatrick": ("1",)}}
    )
    other = [
        *ROWS,
        Row("f", skin_tone="1", skin_tone_scale="monk"),
        Row("g", skin_tone="6", skin_tone_scale="ddi"),
    ]
    grouping = assign_subgroups(other, config)
    assert grouping.names == ("dark", "light")
    assert grouping.members.tolist() == [1, 0, 0, -1, -1, -1, -1]
    assert grouping.undeclared == Undeclared(
        no_tone=1, other_scales={"ddi": 1}, other_values={"fitzpatrick": {"4": 1}, "monk": {"1": 1}}
    )


def test_columns_give_sorted_values():
    rows = [Row("a", site="trunk"), Row("b", site=""), Row("c", site="arm")]
    grouping = assign_subgroups(rows, ColumnSubgroups(column="site"))
    assert grouping.names == ("arm", "trunk")
    assert grouping.members.tolist() == [1, -1, 0]


def test_without_subgroups_all_are_undeclared():
    grouping = assign_subgroups(ROWS, None)
    assert grouping.names == ()
    assert set(grouping.members.tolist()) == {-1}


@pytest.mark.parametrize(
    ("config", "match"),
    [
        (
            ToneSubgroups(scale="fitzpatrick", groups={"light": ("1",), "mid": ("3",)}),
            "subgroup mid .scale fitzpatrick.; .*fitzpatrick 1: 1, .*monk 6: 1, undeclared: 1",
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
