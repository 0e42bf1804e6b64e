import numpy as np
import pytest
from pydantic import ValidationError

from registry.bundle.cases import read_pattern
from registry.bundle.counts.counting import count
from registry.bundle.counts.score_bins import SCORE_BINS
from registry.bundle.evaluation import Evaluation, GroupCounts, ReferenceHistograms
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import Abstention, BundleManifest, Conformal, canonical, read_manifest
from tests.case_bundles import case_bundle

OVER_SCALES = Subgroup(name="dark", tones={"fitzpatrick": ("V", "6"), "milk10k": ("0", "1")})


def test_an_uncalibrated_model_promises_nothing_and_refers_everything(manifest):
    plain = manifest(conformal=Conformal(), abstention=Abstention())
    assert (plain.conformal.guarantee, plain.conformal.threshold_bin) == ("none", 0)
    assert plain.abstention.threshold_bin == SCORE_BINS


def test_a_manifest_survives_json(manifest, predictions):
    counts = count(*predictions(0, 30, 3), malignant=np.arange(3) < 1).point
    tones = Subgroup(name="dark", scale="fitzpatrick", values=("5", "6"))
    whole = manifest(
        subgroup=tones,
        evaluation=Evaluation(all=GroupCounts(n=30, estimates={"auroc": None})),
        reference=ReferenceHistograms.from_counts(counts),
    )
    assert BundleManifest.model_validate_json(whole.model_dump_json()) == whole


@pytest.mark.parametrize("n", [0, 8])
def test_too_few_lesions_cannot_carry_a_guarantee(n):
    with pytest.raises(ValidationError, match="at least 9 are needed"):
        Conformal(alpha=0.1, threshold_bin=10, n=n, guarantee="subgroup")


@pytest.mark.parametrize(("alpha", "fewest"), [(0.1, 9), (0.05, 19), (0.2, 4), (0.07, 14), (1 / 11, 10)])
def test_the_fewest_lesions_that_carry_one(alpha, fewest):
    """ceil(1/alpha) - 1, so that the rank ceil((n + 1)(1 - alpha)) is at most n."""
    Conformal(alpha=alpha, threshold_bin=10, n=fewest, guarantee="global")
    with pytest.raises(ValidationError, match=f"at least {fewest} are needed"):
        Conformal(alpha=alpha, threshold_bin=10, n=fewest - 1, guarantee="global")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"labels": ({"code": "A", "name": "a"},)}, "at least 2"),
        ({"labels": ({"code": "A", "name": "a"}, {"code": "A", "name": "b"})}, "A is there twice"),
        ({"conformal": {"alpha": 0.1, "n": 50, "guarantee": "subgroup"}}, "global model promises"),
        (
            {"reference": {"confidence": (0,) * SCORE_BINS, "scores": ((0,) * SCORE_BINS,)}},
            "1 classes; there are 3",
        ),
        ({"evaluation": {"all": {"n": object()}}}, "evaluation"),
        ({"subgroup": {"name": "dark"}}, "needs the scale and the values"),
        ({"subgroup": {"name": "global", "scale": "monk"}}, "for everybody"),
        ({"subgroup": {"name": "global", "tones": {"monk": ["1"], "ddi": ["12"]}}}, "for everybody"),
        ({"subgroup": {"name": "dark", "tones": {"monk": ["1"]}}}, "of one scale are its `scale`"),
        ({"subgroup": {"name": "dark", "tones": {"monk": ["1"], "ddi": []}}}, "two scales or more"),
        (
            {"subgroup": {"name": "dark", "scale": "ddi", "values": ["12"], "tones": {"monk": ["1"]}}},
            "a bundle names either",
        ),
        ({"conformal": {"threshold_bin": 7}}, "full set, threshold_bin 0"),
        (
            {"abstention": {"threshold_bin": SCORE_BINS + 1}},
            f"abstention.threshold_bin is .* from 0 to {SCORE_BINS}",
        ),
        (
            {"conformal": {"threshold_bin": SCORE_BINS + 1, "n": 9, "guarantee": "global"}},
            f"conformal.threshold_bin is {SCORE_BINS + 1}",
        ),
        ({"conformal": {"threshold_bin": -1, "n": 9, "guarantee": "global"}}, "greater than or equal to 0"),
        (
            {"reference": {"confidence": (0,) * SCORE_BINS, "scores": ((0,) * 500,) * 3}},
            f"500 bins; it has {SCORE_BINS}",
        ),
        ({"schema_version": 2}, "schema_version"),
        ({"picture": {"size": 8, "version": 3}}, "picture version 3"),
        ({"author": "me"}, "author"),
        ({"file": {"sha256": "abc", "size": 3}}, "pattern"),
    ],
)
def test_what_cannot_be_is_refused(manifest, parts, message):
    with pytest.raises(ValidationError, match=message):
        manifest(**parts)


@pytest.mark.parametrize(
    ("values", "tone", "scale", "theirs"),
    [
        (("5", "6"), "5", "fitzpatrick", True),
        (("V", "VI"), "5", "fitzpatrick", True),
        (("5",), "V", "fitzpatrick", True),
        (("5",), "4", "fitzpatrick", False),
        (("5",), "5", "monk", False),
        (("5",), None, "fitzpatrick", False),
        (("5",), "5", None, False),
    ],
)
def test_a_subgroup_covers_its_tones_however_they_are_spelt(values, tone, scale, theirs):
    assert Subgroup(name="dark", scale="fitzpatrick", values=values).covers(tone, scale) is theirs


@pytest.mark.parametrize(
    ("tone", "scale", "theirs"),
    [
        ("5", "fitzpatrick", True),
        ("VI", "fitzpatrick", True),
        ("0", "milk10k", True),
        ("1", "milk10k", True),
        ("5", "milk10k", False),
        ("1", "fitzpatrick", False),
        ("5", "monk", False),
        (None, "milk10k", False),
    ],
)
def test_a_subgroup_over_scales_covers_the_values_of_each_and_converts_none(tone, scale, theirs):
    assert OVER_SCALES.covers(tone, scale) is theirs


HARMLESS = [Label(code=code, name=code, malignancy="benign") for code in ("A", "B")]
POINT = {
    "target": 0.95,
    "level": 0.95,
    "threshold_bin": 140,
    "sensitivity_low": 0.96,
    "n": 80,
    "reached": True,
}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"working_point": {**POINT, "reached": False}}, "`reached` is not false"),
        ({"working_point": {**POINT, "sensitivity_low": 0.9}}, "`reached` is not true"),
        ({"working_point": {**POINT, "threshold_bin": 321}}, "working_point.threshold_bin is 321"),
        ({"working_point": POINT, "labels": HARMLESS}, "no label is malignant"),
    ],
)
def test_a_working_point_that_cannot_be_is_refused(manifest, parts, message):
    with pytest.raises(ValidationError, match=message):
        manifest(**parts)


def test_a_pattern_without_a_working_point_has_that_of_all():
    whole, own = case_bundle().manifest, {**POINT, "threshold_bin": 120}
    first, *rest = whole.patterns
    given = {**whole.model_dump(), "working_point": POINT}
    given["patterns"] = [{**first.model_dump(), "working_point": own}, *(one.model_dump() for one in rest)]
    pointed = BundleManifest.model_validate(given)
    assert read_manifest(canonical(pointed)) == pointed
    assert pointed.under(first.pattern).suspicious_from == 120
    assert pointed.under(rest[0].pattern).suspicious_from == 140
    assert pointed.under(read_pattern("unknown")).suspicious_from == 140
    with pytest.raises(ValidationError, match="all patterns together have none"):
        BundleManifest.model_validate({**given, "working_point": None})
