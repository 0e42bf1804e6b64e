from registry.bundle.labels import ICD10, SNOMED_CT, Coding, Label, short
from registry.bundle.manifest import canonical, read_manifest

CERTAIN = Coding(
    system=ICD10, version="2019", code="C43.9", display="Malignant melanoma of skin", certain=True
)
OTHER = Coding(system=SNOMED_CT, version="http://snomed.info/sct/1/version/2", code="93655004", display="M")


def test_the_short_form_has_one_code_for_each_system():
    assert short((CERTAIN, OTHER)) == {"icd10": "C43.9", "snomed": "93655004"}
    assert short(()) == {}


def test_codings_are_written_and_read_again(manifest):
    labels = (
        Label(code="MEL", name="Melanoma", malignancy="malignant", codings=(CERTAIN, OTHER)),
        Label(code="NV", name="Naevus"),
    )
    told = manifest(labels=labels)
    read = read_manifest(canonical(told))
    assert read == told
    assert read.labels[0].codings == (CERTAIN, OTHER)
