"""The parameters of a request, and which version answers for the declared tone."""

import pytest

from registry.bundle.labels import Subgroup, TonePatients
from serving.protocol.parameters import MAX_TOP, Parameters, read_parameters, select_subgroup
from serving.protocol.problems import InvalidParameter
from tests.represented import patients_of


def test_values_are_read_as_their_scale_spells_them():
    query = [("skin_tone", " iv "), ("skin_tone_scale", "Fitzpatrick"), ("model", "m"), ("top", "2")]
    assert read_parameters(query, {}) == Parameters("4", "fitzpatrick", "m", 2)
    assert read_parameters([], dict(query)) == Parameters("4", "fitzpatrick", "m", 2)


def test_an_empty_value_counts_as_none():
    empty = {"skin_tone": "", "skin_tone_scale": " ", "model": "", "top": ""}
    assert read_parameters([], empty) == Parameters()


REFUSED = [
    ([("skintone", "5")], {}, "did you mean `skin_tone`"),
    ([("Top", "5")], {}, "did you mean `top`"),
    ([("wholly_other", "5")], {}, "valid: skin_tone, skin_tone_scale, model, top, image_kind"),
    ([("skin_tone", "5"), ("skin_tone", "6")], {}, "`skin_tone` is given twice, with two values"),
    ([("skin_tone", "5"), ("skin_tone", "V")], {}, "`skin_tone` is given twice, with two values"),
    ([("skin_tone", "5"), ("skin_tone", "")], {}, "`skin_tone` is given twice, with two values"),
    ([("top", "5")], {"top": "6"}, "`top` is given twice, with two values"),
    ([("model", "m" * 300)], {"model": "m" * 299 + "n"}, "`model` is given twice, with two values"),
    ([("skin_tone_scale", "monk")], {"skin_tone_scale": "ddi"}, "`skin_tone_scale` is given twice"),
    ([("skin_tone", "7")], {}, "allowed: 1, 2, 3, 4, 5, 6 (or I to VI)"),
    ([("skin_tone", "VII")], {}, "allowed: 1, 2, 3, 4, 5, 6 (or I to VI)"),
    ([("skin_tone", "I"), ("skin_tone_scale", "monk")], {}, "allowed: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"),
    ([("skin_tone_scale", "fitzpatric")], {}, "did you mean `fitzpatrick`"),
    ([("skin_tone_scale", "x" * 5000)], {}, "valid: fitzpatrick, monk, milk10k, ddi"),
    ([("x" * 5000, "1")], {}, "valid: skin_tone"),
    *(
        ([("top", text)], {}, f"a whole number from 1 to {MAX_TOP}")
        for text in (
            "0",
            "-1",
            "1001",
            "1.5",
            "five",
            "١",
            "²",
            "0000000019999",
            "1" * 30,
            "000000001" + "9" * 4400,
        )
    ),
]


@pytest.mark.parametrize(("query", "form", "said"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_what_cannot_be_is_refused_naming_what_can(query, form, said):
    with pytest.raises(InvalidParameter) as caught:
        read_parameters(query, form)
    assert said in caught.value.detail
    assert len(caught.value.detail) < 1000


def test_parameters_may_be_in_the_query_or_the_form(service):
    in_query = service.diagnose(params={"skin_tone": "V", "top": "1"}).json()
    in_form = service.form({"skin_tone": "V", "top": "1"}).json()
    in_both = service.form({"skin_tone": "V"}, params={"top": "1"}).json()
    for answer in (in_query, in_form, in_both):
        assert answer["model"]["route"] == "declared"
        assert len(answer["findings"]) == 1
    assert in_query["findings"] == in_form["findings"] == in_both["findings"]


PLACES = {
    "query": lambda service, values: service.diagnose(params=[("skin_tone", one) for one in values]),
    "form": lambda service, values: service.form({"skin_tone": values}),
    "query and form": lambda service, values: service.form(
        {"skin_tone": values[0]}, params={"skin_tone": values[1]}
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_given_twice_it_has_to_say_the_same(service, problem, place):
    once, twice = service.form({"skin_tone": "5"}).json(), PLACES[place](service, ["5", " 5"])
    assert twice.status_code == 200
    assert twice.json()["model"] == once["model"]
    assert once["model"]["route"] == "declared"
    said = problem(PLACES[place](service, ["5", "6"]), 422)["detail"]
    assert said == "`skin_tone` is given twice, with two values; give it once"


TONES = {
    "global": Subgroup(),
    "light": Subgroup(name="light", scale="fitzpatrick", values=("1", "2")),
    "dark": Subgroup(name="dark", scale="fitzpatrick", values=("V", "VI")),
}
OVER_SCALES = {
    "global": Subgroup(),
    "light": Subgroup(name="light", tones={"fitzpatrick": ("1", "2"), "milk10k": ("4", "5")}),
    "dark": Subgroup(name="dark", tones={"fitzpatrick": ("V", "VI"), "milk10k": ("0", "1")}),
    "darkest": Subgroup(name="darkest", scale="monk", values=("10",)),
}
DECLARED = ("declared", "declared")
NO_MODEL = ("no-model-for-subgroup", "no-model-for-subgroup")
MONK = {"global": Subgroup(), "pale": Subgroup(name="pale", scale="monk", values=("1", "2"))}


@pytest.mark.parametrize(
    ("subgroups", "tone", "scale", "answers", "route"),
    [
        (TONES, None, "fitzpatrick", "global", "unknown-tone"),
        (TONES, "1", "fitzpatrick", "light", "declared"),
        (TONES, "6", "fitzpatrick", "dark", "declared"),
        (TONES, "3", "fitzpatrick", "global", "no-model-for-subgroup"),
        (TONES, "1", "monk", "global", "other-scale"),
        (TONES | MONK, "1", "monk", "pale", "declared"),
        (TONES | MONK, "7", "monk", "global", "no-model-for-subgroup"),
        (TONES | MONK, "12", "ddi", "global", "other-scale"),
        (OVER_SCALES, "6", "fitzpatrick", "dark", "declared"),
        (OVER_SCALES, "0", "milk10k", "dark", "declared"),
        (OVER_SCALES, "1", "fitzpatrick", "light", "declared"),
        (OVER_SCALES, "1", "milk10k", "dark", "declared"),
        (OVER_SCALES, "5", "milk10k", "light", "declared"),
        (OVER_SCALES, "10", "monk", "darkest", "declared"),
        (OVER_SCALES, "3", "milk10k", "global", "no-model-for-subgroup"),
        (OVER_SCALES, "3", "fitzpatrick", "global", "no-model-for-subgroup"),
        (OVER_SCALES, "9", "monk", "global", "no-model-for-subgroup"),
        (OVER_SCALES, "12", "ddi", "global", "other-scale"),
        (OVER_SCALES, None, "milk10k", "global", "unknown-tone"),
        ({"global": Subgroup()}, "1", "fitzpatrick", "global", "no-model-for-subgroup"),
        ({"global": Subgroup()}, None, "monk", "global", "unknown-tone"),
    ],
)
def test_who_answers_and_why(bundle, subgroups, tone, scale, answers, route):
    versions = {name: bundle(subgroup).manifest for name, subgroup in subgroups.items()}
    routed = select_subgroup(versions, tone, scale)
    assert (routed.subgroup, routed.route, routed.reason) == (answers, route, route)


FOUR_TONES = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "VI"))


@pytest.mark.parametrize(
    ("own", "everybody", "tone", "answers", "route", "reason"),
    [
        # the control: with patients of every tone each is the subgroup's
        (patients_of(FOUR_TONES), patients_of(Subgroup()), "6", "medium-dark", "declared", "declared"),
        (
            patients_of(FOUR_TONES, without="6"),
            patients_of(Subgroup()),
            "VI",
            "global",
            "unknown-tone",
            "tone-not-represented",
        ),
        (patients_of(FOUR_TONES, without="6"), patients_of(Subgroup()), "5", "medium-dark", *DECLARED),
        # in the test alone, or told by nobody
        (
            TonePatients(test={"fitzpatrick": {"6": 40}}),
            patients_of(Subgroup()),
            "6",
            "global",
            "unknown-tone",
            "tone-not-represented",
        ),
        (None, patients_of(Subgroup()), "6", "global", "unknown-tone", "tone-not-represented"),
        # of no subgroup: known to the global calibration, and left out of it
        (patients_of(FOUR_TONES), patients_of(Subgroup()), "1", "global", *NO_MODEL),
        (
            patients_of(FOUR_TONES),
            patients_of(Subgroup(), without="1"),
            "1",
            "global",
            "unknown-tone",
            "tone-not-represented",
        ),
        (patients_of(FOUR_TONES), None, "1", "global", "unknown-tone", "tone-not-represented"),
    ],
)
def test_a_subgroup_answers_for_the_tones_that_its_calibration_has_seen(
    bundle, own, everybody, tone, answers, route, reason
):
    versions = {
        "global": bundle(patients_by_tone=everybody).manifest,
        "medium-dark": bundle(FOUR_TONES, patients_by_tone=own).manifest,
    }
    routed = select_subgroup(versions, tone, "fitzpatrick")
    assert (routed.subgroup, routed.route, routed.reason) == (answers, route, reason)
