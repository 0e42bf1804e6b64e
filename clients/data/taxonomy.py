"""The codes of the ISIC challenges and of MILK10k: what each means, and whether it is malignant.

One code means one thing in every source. `AKIEC` (actinic keratosis and intraepithelial carcinoma, HAM10000
and MILK10k) holds carcinomas in situ that nobody told apart from their precursors, and MILK10k counts it as
malignant: so it is `malignant`. `AK` (ISIC 2019) holds the precursors alone: it is `premalignant`, and the
label map `malignancy` puts it with the malignant ones, as FedPerl does when it folds eight classes into two.
ICD-10 codes name the category; where on the body (C43.5, ...) is the clinician's to add.
"""

from collections.abc import Mapping

from registry.bundle.labels import Label

_LABELS = (
    Label(code="MEL", name="Melanoma", malignancy="malignant", coding={"icd10": "C43.9"}),
    Label(code="NV", name="Melanocytic nevus", malignancy="benign", coding={"icd10": "D22.9"}),
    Label(code="BCC", name="Basal cell carcinoma", malignancy="malignant", coding={"icd10": "C44.91"}),
    Label(code="AK", name="Actinic keratosis", malignancy="premalignant", coding={"icd10": "L57.0"}),
    Label(
        code="AKIEC",
        name="Actinic keratosis or intraepithelial carcinoma",
        malignancy="malignant",
        coding={"icd10": "D04.9"},
    ),
    Label(code="BKL", name="Benign keratosis", malignancy="benign", coding={"icd10": "L82.1"}),
    Label(code="DF", name="Dermatofibroma", malignancy="benign", coding={"icd10": "D23.9"}),
    Label(code="VASC", name="Vascular lesion", malignancy="benign", coding={"icd10": "D18.01"}),
    Label(code="SCC", name="Squamous cell carcinoma", malignancy="malignant", coding={"icd10": "C44.92"}),
    Label(
        code="SCCKA",
        name="Squamous cell carcinoma or keratoacanthoma",
        malignancy="malignant",
        coding={"icd10": "C44.92"},
    ),
    Label(code="INF", name="Inflammatory or infectious condition", malignancy="benign", coding={}),
    Label(code="MAL_OTH", name="Other malignant proliferation", malignancy="malignant", coding={}),
    Label(code="BEN_OTH", name="Other benign proliferation", malignancy="benign", coding={}),
)

TAXONOMY: Mapping[str, Label] = {label.code: label for label in _LABELS}

BENIGN = Label(code="benign", name="Benign", malignancy="benign")
MALIGNANT = Label(code="malignant", name="Malignant", malignancy="malignant")


def describe(code: str) -> Label:
    """The label of `code`; a code of somebody's own is its own name and of unknown malignancy."""
    folded = {label.code: label for label in (BENIGN, MALIGNANT)}
    return TAXONOMY.get(code) or folded.get(code) or Label(code=code, name=code)
