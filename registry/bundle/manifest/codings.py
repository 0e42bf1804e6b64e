"""The systems of codes of classes, and their short names.

| short name | system | as FHIR names it |
| --- | --- | --- |
| `icd10` | ICD-10 of the World Health Organization | `http://hl7.org/fhir/sid/icd-10` |
| `icd10cm` | ICD-10-CM, the modification of the United States | `http://hl7.org/fhir/sid/icd-10-cm` |
| `snomed` | SNOMED CT | `http://snomed.info/sct` |
"""

from collections.abc import Mapping
from typing import Final

from registry.bundle.manifest.labels import Coding

ICD10: Final = "http://hl7.org/fhir/sid/icd-10"
ICD10_CM: Final = "http://hl7.org/fhir/sid/icd-10-cm"
SNOMED_CT: Final = "http://snomed.info/sct"

SYSTEMS: Final[Mapping[str, str]] = {"icd10": ICD10, "icd10cm": ICD10_CM, "snomed": SNOMED_CT}
"""The URI of the system behind each short name."""


def short(codings: tuple[Coding, ...]) -> dict[str, str]:
    """The codes by the short names of their systems."""
    return {key: one.code for key, system in SYSTEMS.items() for one in codings if one.system == system}
