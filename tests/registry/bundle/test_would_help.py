from registry.bundle.cases import read_given
from registry.bundle.decision import Help, would_help
from tests.case_bundles import CASE, case_bundle, rules

ALL = {"age": "70", "sex": "male", "site": "trunk"}


def helps(kinds, facts, **parts):
    manifest = case_bundle(**parts).manifest
    return would_help(read_given(CASE, kinds, facts), manifest)


def test_the_best_comes_first_with_what_it_brought_in_calibration():
    assert helps(["close-up"], {}) == (
        Help(("dermoscopic",), 0.9, 0.3),
        Help(("age", "sex", "site"), 0.5, 0.15),
    )


def test_only_what_is_missing_is_named():
    assert helps(["close-up"], {"age": "70"}) == (
        Help(("dermoscopic",), 0.6, 0.2),
        Help(("sex", "site"), 0.2, 0.05),
    )
    assert helps(["close-up", "dermoscopic"], ALL) == ()


def test_what_was_not_calibrated_helps_nobody():
    assert helps(["dermoscopic"], {}) == (Help(("close-up",), 0.5, 0.2),)  # with facts it was not
    assert helps([None], {}) == ()


def test_from_what_promises_nothing_every_class_is_spared():
    none = rules("close-up", -3, 1, 2.4, 0.4).model_copy(update={"set_size": None, "reported": None})
    patterns = (none, rules("close-up+dermoscopic", -2, 0.25, 1.25, 0.7))
    assert helps(["close-up"], {}, patterns=patterns) == (Help(("dermoscopic",), 1.8, 0.7),)
