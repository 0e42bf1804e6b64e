"""A manifest of a model that takes cases: its schema, and the rules for what is given."""

import base64
import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from registry.bundle.cases import AGE, CaseInput, read_pattern
from registry.bundle.errors import BundleCorrupt, ManifestError, OtherSchema
from registry.bundle.evaluation import Evaluation, GroupCounts
from registry.bundle.labels import ICD10, SNOMED_CT, Coding, Label, Subgroup, malignant_classes, short
from registry.bundle.manifest import (
    BundleManifest,
    Conformal,
    PatternCalibration,
    Temperature,
    canonical,
    pack,
    read_manifest,
    unpack,
)
from registry.bundle.score_bins import SCORE_BINS
from tests.case_bundles import case_bundle
from tests.thresholds import concluding

CERTAIN = Coding(
    system=ICD10, version="2019", code="C43.9", display="Malignant melanoma of skin", certain=True
)
OTHER = Coding(system=SNOMED_CT, version="http://snomed.info/sct/1/version/2", code="93655004", display="M")


def test_the_short_form_has_one_code_for_each_system():
    assert short((CERTAIN, OTHER)) == {"icd10": "C43.9", "snomed": "93655004"}
    assert short(()) == {}


def test_only_malignant_classes_count_as_malignant():
    kinds = ("malignant", "premalignant", "benign", "unknown", "malignant")
    labels = [Label(code=f"C{i}", name="a class", malignancy=kind) for i, kind in enumerate(kinds)]
    assert malignant_classes(labels).tolist() == [True, False, False, False, True]


def test_an_unknown_key_or_kind_is_refused():
    with pytest.raises(ValidationError, match="malign"):
        Label(code="MEL", name="Melanoma", malign="yes")
    with pytest.raises(ValidationError, match="malignancy"):
        Label(code="MEL", name="Melanoma", malignancy="bad")


def test_the_text_is_little_endian_float32_in_base64():
    assert pack(np.array([[1.5, -2.0], [0.1, 3.0]])) == base64.b64encode(
        struct.pack("<4f", 1.5, -2.0, 0.1, 3.0)
    ).decode("ascii")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=50))
@settings(max_examples=50)
def test_numbers_come_back_to_the_last_bit(numbers):
    array = np.array(numbers, dtype=np.float32)
    assert unpack(pack(array), len(numbers)).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("AAAA", "3 bytes of float32 do not make 2 numbers"),
        ("AAAAAAAAAA", "padding"),
        ("AAAA AAAAAAA=", "non-base64|Only base64"),
        (base64.b64encode(struct.pack("<2f", 1, float("nan"))).decode(), "not finite"),
    ],
)
def test_what_is_no_array_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        unpack(text, 2)


CASE = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE,))
CLOSE_UP = PatternCalibration(
    pattern=read_pattern("close-up"),
    temperature=Temperature(value=1.5, n=60),
    conformal=Conformal(threshold_bin=30, n=60, guarantee="global"),
    conclusions=concluding(0.5),
    set_size=1.4,
    reported=0.7,
)


@pytest.fixture
def of_cases(manifest):
    def make(**changes):
        return manifest(**{"case": CASE, "patterns": (CLOSE_UP,), **changes})

    return make


def test_a_pattern_that_cannot_be_given_is_refused(of_cases):
    overview = CLOSE_UP.model_copy(update={"pattern": read_pattern("overview")})
    with pytest.raises(ValidationError, match="pattern overview is none that this model can be given"):
        of_cases(patterns=(overview,))
    with pytest.raises(ValidationError, match="pattern close-up is there twice"):
        of_cases(patterns=(CLOSE_UP, CLOSE_UP))


def test_the_rules_of_a_pattern_are_its_own(of_cases):
    under = of_cases().under(read_pattern("close-up"))
    assert (under.temperature, under.conformal, under.conclusions) == (
        CLOSE_UP.temperature,
        CLOSE_UP.conformal,
        CLOSE_UP.conclusions,
    )


def test_nothing_is_promised_for_a_pattern_without_rules(of_cases):
    whole = of_cases(conformal=Conformal(threshold_bin=10, n=100, guarantee="global"))
    under = whole.under(read_pattern("close-up+dermoscopic"))
    assert under.conformal.guarantee == "none"
    assert under.conformal.threshold_bin == 0
    assert under.conclusions.nodes == ()


HARMLESS = [Label(code=code, name=code, malignancy="benign") for code in ("A", "B")]
POINT = {
    "target": 0.95,
    "level": 0.95,
    "threshold_bin": 140,
    "sensitivity_low": 0.96,
    "n": 80,
    "reached": True,
}
OVER_SCALES = Subgroup(name="dark", tones={"fitzpatrick": ("V", "6"), "milk10k": ("0", "1")})


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
            {"working_point": POINT | {"threshold_bin": SCORE_BINS + 1}},
            f"less than or equal to {SCORE_BINS}",
        ),
        (
            {"conformal": {"threshold_bin": SCORE_BINS + 1, "n": 9, "guarantee": "global"}},
            f"less than or equal to {SCORE_BINS}",
        ),
        ({"conformal": {"threshold_bin": -1, "n": 9, "guarantee": "global"}}, "greater than or equal to 0"),
        (
            {"reference": {"confidence": (0,) * SCORE_BINS, "scores": ((0,) * 500,) * 3}},
            f"500 bins; it has {SCORE_BINS}",
        ),
        ({"schema_version": 2}, "schema_version"),
        ({"picture": {"size": 8, "version": 2}}, "picture version 2"),
        ({"working_point": {**POINT, "reached": False}}, "`reached` is not false"),
        ({"working_point": {**POINT, "sensitivity_low": 0.9}}, "`reached` is not true"),
        ({"working_point": {**POINT, "threshold_bin": 321}}, "less than or equal to 320"),
        ({"working_point": POINT, "labels": HARMLESS}, "no label is malignant"),
        ({"author": "me"}, "author"),
        ({"file": {"sha256": "abc", "size": 3}}, "pattern"),
    ],
)
def test_what_cannot_be_is_refused(manifest, parts, message):
    with pytest.raises(ValidationError, match=message):
        manifest(**parts)


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
        ("5", None, False),
    ],
)
def test_a_subgroup_over_scales_covers_the_values_of_each_and_converts_none(tone, scale, theirs):
    assert OVER_SCALES.covers(tone, scale) is theirs


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


def text(record) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def shown(auroc):
    dark = GroupCounts(n=3, right=2)
    return Evaluation(all=GroupCounts(n=3, estimates={"auroc": auroc}), by_subgroup={"dark": dark})


@given(value=st.floats(0, 1))
@settings(max_examples=50)
def test_every_figure_comes_back_to_the_last_bit(manifest, value):
    content = canonical(manifest(model="Läsion", evaluation=shown(value)))
    assert read_manifest(content).metrics["auroc"] == value
    assert canonical(read_manifest(content)) == content


def test_a_text_that_was_edited_or_formatted_is_refused(manifest):
    record = json.loads(canonical(manifest()))
    with pytest.raises(BundleCorrupt, match="edited after it was written"):
        read_manifest(json.dumps(record, indent=2).encode())
    twice = canonical(manifest()).replace(b'"model":', b'"model":"first","model":', 1)
    with pytest.raises(BundleCorrupt, match="edited"):
        read_manifest(twice)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(content):
    with pytest.raises(BundleCorrupt, match="not JSON"):
        read_manifest(content)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "an object"),
        ({"schema_version": 1, "model": "m"}, "labels: Field required"),
    ],
)
def test_what_is_no_manifest_is_refused(record, message):
    with pytest.raises(ManifestError, match=message):
        read_manifest(text(record))


@pytest.mark.parametrize("version", [None, "1", True, 1.0, 0, 2])
def test_what_is_of_another_version_is_refused(version):
    with pytest.raises(OtherSchema, match=f"schema_version {version!r}; this dermfed reads 1 alone"):
        read_manifest(text({"schema_version": version}))


def test_every_key_is_written(manifest):
    record = json.loads(canonical(manifest()))
    assert set(record) == set(BundleManifest.model_fields)
    assert record["parity"] is None
