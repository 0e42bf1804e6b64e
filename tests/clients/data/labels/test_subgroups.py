import pytest

from clients.data.errors import SubgroupError
from clients.data.labels.subgroups import assign_subgroups
from clients.data.manifests.manifest import Row
from training.data.settings import ColumnSubgroups, ToneSubgroups

ROWS = [
    Row("a", skin_tone="1", skin_tone_scale="fitzpatrick"),
    Row("b", skin_tone="6", skin_tone_scale="fitzpatrick"),
    Row("c", skin_tone="6", skin_tone_scale="monk"),
    Row("d", skin_tone="4", skin_tone_scale="fitzpatrick"),
    Row("e", extra={"clinic": "x"}),
]


def test_tones_of_another_scale_and_no_group_are_undeclared() -> None:
    config = ToneSubgroups(scale="fitzpatrick", groups={"light": ("I", "2"), "dark": ("VI",)})
    grouping = assign_subgroups(ROWS, config)
    assert grouping.names == ("light", "dark")
    assert grouping.members.tolist() == [0, 1, -1, -1, -1]


def test_columns_give_sorted_values() -> None:
    rows = [Row("a", site="trunk"), Row("b", site=""), Row("c", site="arm")]
    grouping = assign_subgroups(rows, ColumnSubgroups(column="site"))
    assert grouping.names == ("arm", "trunk")
    assert grouping.members.tolist() == [1, -1, 0]


def test_without_subgroups_all_are_undeclared() -> None:
    grouping = assign_subgroups(ROWS, None)
    assert grouping.names == ()
    assert set(grouping.members.tolist()) == {-1}


@pytest.mark.parametrize(
    ("config", "match"),
    [
        (ToneSubgroups(scale="fitzpatric", groups={"a": ("1",)}), "did you mean `fitzpatrick`"),
        (ToneSubgroups(scale="monk", groups={"a": ("IV",)}), "'IV' is not on the scale monk"),
        (
            ToneSubgroups(scale="fitzpatrick", groups={"light": ("1",), "mid": ("3",)}),
            "subgroup mid .*fitzpatrick 1: 1, .*monk 6: 1, undeclared: 1",
        ),
        (ColumnSubgroups(column="patient_id"), "'patient_id' is empty"),
    ],
)
def test_what_fits_nobody_is_refused(config: ToneSubgroups | ColumnSubgroups, match: str) -> None:
    with pytest.raises(SubgroupError, match=match):
        assign_subgroups(ROWS, config)
