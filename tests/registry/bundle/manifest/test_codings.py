import pytest

from registry.bundle.manifest.codings import ICD10, ICD10_CM, SNOMED_CT, codings_of, short
from registry.bundle.manifest.labels import Coding, Label
from registry.bundle.manifest.text import canonical, read_manifest

CERTAIN = Coding(
    system=ICD10, version="2019", code="C43.9", display="Malignant melanoma of skin", certain=True
)
OTHER = Coding(system=SNOMED_CT, version="http://snomed.info/sct/1/version/2", code="93655004", display="M")


def test_a_bundle_says_its_own_codings():
    label = Label(code="MEL", name="Melanoma", coding={"icd10": "D03.9"}, codings=(CERTAIN, OTHER))
    assert codings_of(label) == (CERTAIN, OTHER)


@pytest.mark.parametrize(
    ("key", "code", "system"),
    [
        ("icd10", "C43.9", ICD10),
        ("icd10", "L57.0", ICD10),
        ("icd10", "L82", ICD10),
        ("icd10", "C44.91", ICD10_CM),  # what bundles of before wrote, and only the modification has
        ("icd10", "C44.92", ICD10_CM),
        ("icd10", "D18.01", ICD10_CM),
        ("icd10", "L82.1", ICD10_CM),
        ("icd10cm", "C43.9", ICD10_CM),
        ("snomed", "93655004", SNOMED_CT),
    ],
)
def test_of_a_bundle_of_before_the_system_is_known_and_nothing_is_certain(key, code, system):
    label = Label(code="X", name="A disease", coding={key: code})
    assert codings_of(label) == (
        Coding(system=system, version=None, code=code, display="A disease", certain=False),
    )


def test_a_system_without_an_address_has_no_coding():
    assert codings_of(Label(code="X", name="A disease", coding={"house": "17", "icd10": ""})) == ()
    assert codings_of(Label(code="X", name="A disease")) == ()


def test_the_short_form_has_one_code_for_each_system():
    assert short((CERTAIN, OTHER)) == {"icd10": "C43.9", "snomed": "93655004"}
    assert short(()) == {}


def test_a_bundle_without_codings_keeps_its_digest(manifest):
    """The key came after bundles had been written without it."""
    content = canonical(manifest())
    assert b"codings" not in content
    assert canonical(read_manifest(content)) == content


def test_codings_are_written_and_read_again(manifest):
    labels = (
        Label(code="MEL", name="Melanoma", malignancy="malignant", codings=(CERTAIN, OTHER)),
        Label(code="NV", name="Naevus"),
    )
    told = manifest(labels=labels)
    read = read_manifest(canonical(told))
    assert read == told
    assert codings_of(read.labels[0]) == (CERTAIN, OTHER)
    assert canonical(told).count(b'"codings"') == 1
