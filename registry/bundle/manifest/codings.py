"""The codes of a class in other systems, each with the system's URI, its edition and whether it is certain.

A bundle says so itself (`Label.codings`). Bundles of before name a code alone (`coding`): of these the system
is known, the edition is not, and a terminologist has to look before they are relied on.

| key in `coding` | system | as FHIR names it |
| --- | --- | --- |
| `icd10` | ICD-10 of the World Health Organization | `http://hl7.org/fhir/sid/icd-10` |
| `icd10cm` | ICD-10-CM, the modification of the United States | `http://hl7.org/fhir/sid/icd-10-cm` |
| `snomed` | SNOMED CT | `http://snomed.info/sct` |
"""

from collections.abc import Mapping
from typing import Final

from registry.bundle.manifest.labels import Coding, Label

ICD10: Final = "http://hl7.org/fhir/sid/icd-10"
ICD10_CM: Final = "http://hl7.org/fhir/sid/icd-10-cm"
SNOMED_CT: Final = "http://snomed.info/sct"

SYSTEMS: Final[Mapping[str, str]] = {"icd10": ICD10, "icd10cm": ICD10_CM, "snomed": SNOMED_CT}
"""The URI of the system behind each key of `coding`."""

# What bundles of before call `icd10`, but only the modification has.
_OF_THE_MODIFICATION: Final = frozenset({"C44.91", "C44.92", "D18.01", "L82.1"})


def codings_of(label: Label) -> tuple[Coding, ...]:
    """The codes of a class in other systems; those of systems without a URI here are left out."""
    if label.codings:
        return label.codings
    return tuple(
        Coding(
            system=ICD10_CM if code in _OF_THE_MODIFICATION else SYSTEMS[key],
            code=code,
            display=label.name,
            certain=False,
        )
        for key, code in label.coding.items()
        if key in SYSTEMS and code
    )


def short(codings: tuple[Coding, ...]) -> dict[str, str]:
    """The codes by the short names of their systems, in the form of `Label.coding`."""
    return {key: one.code for key, system in SYSTEMS.items() for one in codings if one.system == system}
