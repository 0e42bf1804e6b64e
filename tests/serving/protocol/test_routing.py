import pytest

from registry.bundle.labels import Subgroup, TonePatients
from serving.protocol.parameters import select_subgroup
from tests.represented import patients_of

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
