import pytest

from registry.views.changes import FigureValue, figure_changes


def changes_of(bundle, before, after):
    found = figure_changes(bundle(metrics=before).manifest, bundle(metrics=after).manifest)
    return {(one.part, one.subgroup, one.figure): one for one in found}


def row(n, accuracy, *ends):
    return {"n": n, "accuracy": accuracy, "intervals": {"accuracy": list(ends) or None}}


def test_each_subgroup_is_set_side_by_side(bundle):
    before = {
        **row(90, 0.7, 0.6, 0.8),
        "by_subgroup": {"dark": row(40, 0.5, 0.3, 0.6), "light": row(50, 0.9)},
    }
    after = {**row(95, 0.8, 0.7, 0.9), "by_subgroup": {"dark": row(45, 0.75, 0.65, 0.85)}}
    found = changes_of(bundle, before, after)
    assert list(found) == [
        ("all", None, "accuracy"), ("subgroup", "dark", "accuracy"), ("subgroup", "light", "accuracy"),
    ]  # fmt: skip
    dark = found["subgroup", "dark", "accuracy"]
    assert dark.before == FigureValue(0.5, (0.3, 0.6), 40)
    assert dark.after == FigureValue(0.75, (0.65, 0.85), 45)
    assert (dark.difference, dark.overlap) == (pytest.approx(0.25), False)
    assert (found["all", None, "accuracy"].difference, found["all", None, "accuracy"].overlap) == (
        pytest.approx(0.1), True,
    )  # fmt: skip
    light = found["subgroup", "light", "accuracy"]
    assert (light.after, light.difference, light.overlap) == (FigureValue(None, None, None), None, None)


@pytest.mark.parametrize(
    ("before", "after", "overlap"),
    [
        ((0.1, 0.2), (0.2, 0.3), True),
        ((0.2, 0.3), (0.1, 0.2), True),
        ((0.1, 0.9), (0.4, 0.5), True),
        ((0.1, 0.2), (0.21, 0.3), False),
        ((0.21, 0.3), (0.1, 0.2), False),
        ((0.1, 0.2), (), None),
    ],
)
def test_intervals_overlap_where_they_have_a_value_in_common(bundle, before, after, overlap):
    found = changes_of(bundle, row(9, 0.1, *before), row(9, 0.3, *after))
    assert found["all", None, "accuracy"].overlap is overlap


@pytest.mark.parametrize(
    "metrics", [{}, {"by_subgroup": [1]}, {"by_subgroup": {"dark": 3}}, {"accuracy": True}]
)
def test_figures_in_no_known_form_are_left_out(bundle, metrics):
    assert changes_of(bundle, metrics, metrics) == {}
