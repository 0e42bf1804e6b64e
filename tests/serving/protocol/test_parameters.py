"""The parameters of a request, and which version answers for the declared tone."""

import pytest

from registry.bundle.labels import Subgroup, TonePatients
from serving.protocol.parameters import Parameters, read_parameters, select_subgroup
from serving.protocol.problems import InvalidParameter
from tests.represented import patients_of

GIVEN = [("skin_tone", " iv "), ("skin_tone_scale", "Fitzpatrick"), ("model", "m"), ("top", "2")]
EMPTY = {"skin_tone": "", "skin_tone_scale": " ", "model": "", "top": ""}


@pytest.mark.parametrize(
    ("query", "form", "expected"),
    [
        pytest.param(GIVEN, {}, Parameters("4", "fitzpatrick", "m", 2), id="query"),
        pytest.param([], dict(GIVEN), Parameters("4", "fitzpatrick", "m", 2), id="form"),
        pytest.param(
            [("top", "2"), ("top", " 2")], {"top": "2"}, Parameters(top=2), id="the same three times"
        ),
        pytest.param([], EMPTY, Parameters(), id="empty values"),
    ],
)
def test_values_are_read_as_their_scale_spells_them(query, form, expected):
    assert read_parameters(query, form) == expected


@pytest.mark.parametrize(
    ("query", "form", "said"),
    [
        pytest.param([("skintone", "5")], {}, "did you mean `skin_tone`", id="misspelt name"),
        pytest.param([("x" * 5000, "1")], {}, "valid: skin_tone", id="very long name"),
        pytest.param(
            [("skin_tone", "5"), ("skin_tone", "V")], {}, "`skin_tone` is given twice", id="V after 5"
        ),
        pytest.param(
            [("skin_tone", "5"), ("skin_tone", "")], {}, "`skin_tone` is given twice", id="none after 5"
        ),
        pytest.param([("top", "5")], {"top": "6"}, "`top` is given twice", id="query and form differ"),
        pytest.param([("model", "m" * 300)], {"model": "m" * 299 + "n"}, "`model`", id="differ at the end"),
        pytest.param([("skin_tone", "VII")], {}, "1, 2, 3, 4, 5, 6 (or I to VI)", id="no tone of the scale"),
        pytest.param(
            [("skin_tone", "I"), ("skin_tone_scale", "monk")],
            {},
            "8, 9, 10",
            id="Roman tone of another scale",
        ),
        pytest.param(
            [("skin_tone_scale", "fitzpatric")], {}, "did you mean `fitzpatrick`", id="misspelt scale"
        ),
        pytest.param([("skin_tone_scale", "x" * 5000)], {}, "valid: fitzpatrick", id="very long scale"),
        pytest.param([("top", "0")], {}, "from 1 to 1000", id="top of none"),
        pytest.param([("top", "1001")], {}, "from 1 to 1000", id="top of too many"),
        pytest.param([("top", "1.5")], {}, "from 1 to 1000", id="top that is not whole"),
        pytest.param([("top", "١")], {}, "from 1 to 1000", id="top in other digits"),
        pytest.param([("top", "²")], {}, "from 1 to 1000", id="top in superscript"),
        pytest.param(
            [("top", "000000001" + "9" * 4400)], {}, "from 1 to 1000", id="more digits than Python reads"
        ),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_valid(query, form, said):
    with pytest.raises(InvalidParameter) as caught:
        read_parameters(query, form)
    assert said in caught.value.detail
    assert len(caught.value.detail) < 1000


ONE_SCALE = (
    Subgroup(name="light", scale="fitzpatrick", values=("1", "2")),
    Subgroup(name="dark", scale="fitzpatrick", values=("V", "VI")),
)
TWO_SCALES = (
    Subgroup(name="light", tones={"fitzpatrick": ("1", "2"), "milk10k": ("4", "5")}),
    Subgroup(name="dark", tones={"fitzpatrick": ("V", "VI"), "milk10k": ("0", "1")}),
    Subgroup(name="darkest", scale="monk", values=("10",)),
)


@pytest.mark.parametrize(
    ("subgroups", "tone", "scale", "subgroup", "route"),
    [
        (ONE_SCALE, None, "fitzpatrick", "global", "unknown-tone"),
        (ONE_SCALE, "1", "fitzpatrick", "light", "declared"),
        (ONE_SCALE, "6", "fitzpatrick", "dark", "declared"),
        (ONE_SCALE, "3", "fitzpatrick", "global", "no-model-for-subgroup"),
        (ONE_SCALE, "1", "monk", "global", "other-scale"),
        (TWO_SCALES, "6", "fitzpatrick", "dark", "declared"),
        (TWO_SCALES, "1", "fitzpatrick", "light", "declared"),
        (TWO_SCALES, "1", "milk10k", "dark", "declared"),
        (TWO_SCALES, "5", "milk10k", "light", "declared"),
        (TWO_SCALES, "10", "monk", "darkest", "declared"),
        (TWO_SCALES, "3", "milk10k", "global", "no-model-for-subgroup"),
        (TWO_SCALES, "12", "ddi", "global", "other-scale"),
        ((), "1", "fitzpatrick", "global", "no-model-for-subgroup"),
    ],
)
def test_the_version_of_the_declared_tone_answers(bundle, subgroups, tone, scale, subgroup, route):
    versions = {one.name: bundle(one).manifest for one in (Subgroup(), *subgroups)}
    routed = select_subgroup(versions, tone, scale)
    assert (routed.subgroup, routed.route, routed.reason) == (subgroup, route, route)


FOUR_TONES = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "VI"))
ALL, GLOBAL = patients_of(FOUR_TONES), patients_of(Subgroup())
WITHOUT_6 = patients_of(FOUR_TONES, without="6")
TESTED_ON_6 = TonePatients(test={"fitzpatrick": {"6": 40}})
UNSEEN = ("global", "unknown-tone", "tone-not-represented")
OWN = ("medium-dark", "declared", "declared")


@pytest.mark.parametrize(
    ("own", "of_global", "tone", "expected"),
    [
        pytest.param(ALL, GLOBAL, "6", OWN, id="control: patients of every tone"),
        pytest.param(WITHOUT_6, GLOBAL, "VI", UNSEEN, id="no patients of this tone"),
        pytest.param(WITHOUT_6, GLOBAL, "5", OWN, id="no patients of another tone"),
        pytest.param(TESTED_ON_6, GLOBAL, "6", UNSEEN, id="patients in the test alone"),
        pytest.param(None, GLOBAL, "6", UNSEEN, id="unknown number of patients"),
        pytest.param(ALL, GLOBAL, "1", ("global", *["no-model-for-subgroup"] * 2), id="tone of no subgroup"),
        pytest.param(
            ALL, patients_of(Subgroup(), without="1"), "1", UNSEEN, id="tone of no subgroup and of no patient"
        ),
        pytest.param(ALL, None, "1", UNSEEN, id="tone of no subgroup, unknown number of patients"),
    ],
)
def test_a_subgroup_answers_for_the_tones_in_its_calibration(bundle, own, of_global, tone, expected):
    versions = {
        "global": bundle(patients_by_tone=of_global).manifest,
        "medium-dark": bundle(FOUR_TONES, patients_by_tone=own).manifest,
    }
    routed = select_subgroup(versions, tone, "fitzpatrick")
    assert (routed.subgroup, routed.route, routed.reason) == expected
