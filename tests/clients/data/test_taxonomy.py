"""The codes of the taxonomy, against the rules that each system has for its own codes."""

import re
from pathlib import Path

import pytest

from clients.data.label_map import assign_classes
from clients.data.taxonomy import TAXONOMY
from registry.bundle.labels import ICD10, ICD10_CM, SNOMED_CT, short

ISIC_2019 = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")


def times(a: int, b: int) -> int:
    """The product in the dihedral group: 0 to 4 are turns, 5 to 9 mirrored turns."""
    if a < 5 and b < 5:
        return (a + b) % 5
    if a < 5:
        return 5 + (a + b - 5) % 5
    if b < 5:
        return 5 + (a - 5 - b) % 5
    return (a - b) % 5


def is_snomed(code: str) -> bool:
    """Verhoeff's check digit, which every SNOMED CT identifier ends in."""
    step = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)
    total = 0
    for place, digit in enumerate(reversed(code)):
        value = int(digit)
        for _ in range(place % 8):
            value = step[value]
        total = times(total, value)
    return total == 0


def all_codings():
    return [(label.code, one) for label in TAXONOMY.values() for one in label.codings]


def test_the_check_digit_is_told():
    assert is_snomed("138875005")  # the root concept
    assert is_snomed("64572001")  # disease
    assert not is_snomed("64572002")
    assert not is_snomed("46572001")  # two digits changed places


@pytest.mark.parametrize("code", ISIC_2019)
def test_each_class_of_isic_has_codes_with_system_and_edition(code):
    codings = TAXONOMY[code].codings
    assert {ICD10, ICD10_CM} <= {one.system for one in codings}
    assert len({one.system for one in codings}) == len(codings)
    assert all(one.version and one.display for one in codings)


def test_every_code_is_one_that_its_system_may_have():
    shapes = {
        ICD10: r"[A-Z]\d\d(\.\d)?",
        ICD10_CM: r"[A-Z]\d[0-9A-Z](\.[0-9A-Z]{1,4})?",
        SNOMED_CT: r"\d{6,18}",
    }
    for code, one in all_codings():
        assert re.fullmatch(shapes[one.system], one.code), (code, one)
        if one.system == SNOMED_CT:
            assert is_snomed(one.code), (code, one)
            assert re.fullmatch(r"http://snomed\.info/sct/\d+/version/\d{8}", one.version)


def test_a_category_of_the_modification_lies_within_that_of_the_who():
    for label in TAXONOMY.values():
        if label.codings:
            coding = short(label.codings)
            assert coding["icd10cm"].startswith(coding["icd10"]), label


def test_what_a_terminologist_has_to_look_at():
    uncertain = {(code, one.system) for code, one in all_codings() if not one.certain}
    both = (ICD10, ICD10_CM)
    assert uncertain == {
        *((code, system) for code in ("AKIEC", "BKL", "VASC", "SCCKA") for system in both),
        *((code, SNOMED_CT) for code in ("MEL", "NV", "SCC", "VASC")),
    }


def test_a_job_takes_them_into_its_bundle():
    labels = assign_classes(["NV", "MEL"], None).labels
    assert [label.codings for label in labels] == [TAXONOMY["MEL"].codings, TAXONOMY["NV"].codings]


@pytest.mark.parametrize("code", ISIC_2019)
def test_the_table_in_the_docs_has_these_codes(code):
    page = (Path(__file__).parents[3] / "docs" / "service.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith(f"| `{code}` |")]
    cells = [cell.strip() for cell in line.split("|")[2:5]]
    coding = short(TAXONOMY[code].codings)
    assert cells == [coding.get(key, "") for key in ("icd10", "icd10cm", "snomed")]


def test_the_docs_list_every_code_by_its_malignancy():
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
    listed = page[page.index("The codes of ISIC") :].split("\n\n")[0]
    parts = [part.split(maxsplit=1) for part in listed.partition("): ")[2].split(";")]
    assert {name: set(re.findall(r"`(\w+)`", codes)) for name, codes in parts} == {
        name: {label.code for label in TAXONOMY.values() if label.malignancy == name}
        for name in ("malignant", "benign", "premalignant")
    }
