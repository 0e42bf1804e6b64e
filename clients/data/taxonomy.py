"""The codes of the ISIC challenges and of MILK10k: what each means, and whether it is malignant.

One code means one thing in every source. `AKIEC` (actinic keratosis and intraepithelial carcinoma, HAM10000
and MILK10k) holds carcinomas in situ that were not distinguished from their precursors, and MILK10k counts it
as malignant: so it is `malignant`. `AK` (ISIC 2019) holds the precursors alone: it is `premalignant`, and the
label map `malignancy` puts it with the malignant ones, as FedPerl does when it folds eight classes into
two. ICD-10 and ICD-10-CM codes name the category; where on the body (C43.5, ...) is the clinician's to add.
A code is `certain` where the published lists that we read agree on it; at the others a terminologist has to
look first:

- A class of several diseases has no code of its own, and the code here is that of one of them. `AKIEC` is
  also L57.0; `BKL` solar lentigo (L81.4) and lichen planus-like keratosis (L43.8); `VASC` angiokeratoma and
  pyogenic granuloma (L98.0); `SCCKA` keratoacanthoma (L85.8).
- SNOMED CT: for `MEL`, `NV` and `SCC` some lists have the disorder of the skin, as here, and some that of
  any site (372244006, 400096001, 402815007). For `VASC` three lists have haemangioma, which is narrower.
  For `BKL` and `DF` every list has another concept, most of them fail SNOMED CT's own check digit, and
  there is none here.

Malignant classes are counted by kind: melanoma and other tumours that spread early, basal cell carcinoma, and
squamous cell carcinoma with actinic keratosis. Diagnoses that are hard to tell apart are groups, which may be
concluded where no single one is sure. `data.kinds` and `data.groups` of a job name others.
"""

from collections.abc import Mapping

from registry.bundle.labels import ICD10, ICD10_CM, SNOMED_CT, Coding, Label, Malignancy

_EDITIONS = {
    ICD10: "2019",
    ICD10_CM: "2025",
    SNOMED_CT: "http://snomed.info/sct/900000000000207008/version/20250201",  # International Edition
}


def _coding(system: str, code: str, display: str, *, certain: bool = True) -> Coding:
    return Coding(system=system, version=_EDITIONS[system], code=code, display=display, certain=certain)


_KINDS: Mapping[str, tuple[str, ...]] = {
    "melanoma and others": ("MEL", "MAL_OTH"),
    "basal cell carcinoma": ("BCC",),
    "squamous cell carcinoma": ("SCC", "SCCKA", "AKIEC"),
}
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "melanoma and others": ("MEL", "MAL_OTH"),
    "keratinocyte cancer": ("BCC", "SCC", "SCCKA", "AKIEC"),
    "other benign lesion": ("DF", "VASC", "INF", "BEN_OTH"),
}
_KIND_OF, _GROUP_OF = (
    {code: name for name, codes in names.items() for code in codes} for names in (_KINDS, _GROUPS)
)


def _label(code: str, name: str, malignancy: Malignancy, *codings: Coding) -> Label:
    kind, group = _KIND_OF.get(code), _GROUP_OF.get(code)
    return Label(code=code, name=name, malignancy=malignancy, codings=codings, kind=kind, group=group)


_LABELS = (
    _label(
        "MEL",
        "Melanoma",
        "malignant",
        _coding(ICD10, "C43.9", "Malignant melanoma of skin, unspecified"),
        _coding(ICD10_CM, "C43.9", "Malignant melanoma of skin, unspecified"),
        _coding(SNOMED_CT, "93655004", "Malignant melanoma of skin", certain=False),
    ),
    _label(
        "NV",
        "Melanocytic nevus",
        "benign",
        _coding(ICD10, "D22.9", "Melanocytic naevi, unspecified"),
        _coding(ICD10_CM, "D22.9", "Melanocytic nevi, unspecified"),
        _coding(SNOMED_CT, "400010006", "Melanocytic nevus of skin", certain=False),
    ),
    _label(
        "BCC",
        "Basal cell carcinoma",
        "malignant",
        _coding(ICD10, "C44.9", "Malignant neoplasm of skin, unspecified"),
        _coding(ICD10_CM, "C44.91", "Basal cell carcinoma of skin, unspecified"),
        _coding(SNOMED_CT, "254701007", "Basal cell carcinoma of skin"),
    ),
    _label(
        "AK",
        "Actinic keratosis",
        "premalignant",
        _coding(ICD10, "L57.0", "Actinic keratosis"),
        _coding(ICD10_CM, "L57.0", "Actinic keratosis"),
        _coding(SNOMED_CT, "201101007", "Actinic keratosis"),
    ),
    _label(
        "AKIEC",
        "Actinic keratosis or intraepithelial carcinoma",
        "malignant",
        _coding(ICD10, "D04.9", "Carcinoma in situ of skin, unspecified", certain=False),
        _coding(ICD10_CM, "D04.9", "Carcinoma in situ of skin, unspecified", certain=False),
    ),
    _label(
        "BKL",
        "Benign keratosis",
        "benign",
        _coding(ICD10, "L82", "Seborrhoeic keratosis", certain=False),
        _coding(ICD10_CM, "L82.1", "Other seborrheic keratosis", certain=False),
    ),
    _label(
        "DF",
        "Dermatofibroma",
        "benign",
        _coding(ICD10, "D23.9", "Other benign neoplasms of skin, unspecified"),
        _coding(ICD10_CM, "D23.9", "Other benign neoplasm of skin, unspecified"),
    ),
    _label(
        "VASC",
        "Vascular lesion",
        "benign",
        _coding(ICD10, "D18.0", "Haemangioma, any site", certain=False),
        _coding(ICD10_CM, "D18.01", "Hemangioma of skin and subcutaneous tissue", certain=False),
        _coding(SNOMED_CT, "400210000", "Hemangioma", certain=False),
    ),
    _label(
        "SCC",
        "Squamous cell carcinoma",
        "malignant",
        _coding(ICD10, "C44.9", "Malignant neoplasm of skin, unspecified"),
        _coding(ICD10_CM, "C44.92", "Squamous cell carcinoma of skin, unspecified"),
        _coding(SNOMED_CT, "254651007", "Squamous cell carcinoma of skin", certain=False),
    ),
    _label(
        "SCCKA",
        "Squamous cell carcinoma or keratoacanthoma",
        "malignant",
        _coding(ICD10, "C44.9", "Malignant neoplasm of skin, unspecified", certain=False),
        _coding(ICD10_CM, "C44.92", "Squamous cell carcinoma of skin, unspecified", certain=False),
    ),
    _label("INF", "Inflammatory or infectious condition", "benign"),
    _label("MAL_OTH", "Other malignant proliferation", "malignant"),
    _label("BEN_OTH", "Other benign proliferation", "benign"),
)

TAXONOMY: Mapping[str, Label] = {label.code: label for label in _LABELS}

BENIGN = Label(code="benign", name="Benign", malignancy="benign")
MALIGNANT = Label(code="malignant", name="Malignant", malignancy="malignant")


def describe(code: str) -> Label:
    """The label of `code`; a user-defined code is its own name and of unknown malignancy."""
    folded = {label.code: label for label in (BENIGN, MALIGNANT)}
    return TAXONOMY.get(code) or folded.get(code) or Label(code=code, name=code)
