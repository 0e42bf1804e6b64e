"""Fitzpatrick17k: 16,577 clinical pictures with Fitzpatrick types (Groh et al. 2021, CC BY-NC-SA 3.0).

The folder holds `fitzpatrick17k.csv` and the pictures, each named by its `md5hash`, unpacked or in zip
files; many addresses of the table no longer answer. The published names of diagnoses are the codes. Types
were annotated from the picture, by a crowd (`fitzpatrick_scale`) and by one company
(`fitzpatrick_centaur`); -1 is not known.

The data set tells no lesions, patients and sites, and is known to hold duplicates that it does not name.
The judgement `qc` of dermatologists exists for 504 pictures alone; all pictures are kept unless an option
leaves out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import field_validator

from clients.data.adapters.published import Line, PublishedTable, code_of
from clients.data.errors import AdapterError
from clients.data.manifest import Manifest
from registry.bundle.text import nearest

THREE = (
    "benign",
    "malignant",
    "non-neoplastic",
)

NINE = (
    "benign dermal",
    "benign epidermal",
    "benign melanocyte",
    "genodermatoses",
    "inflammatory",
    "malignant cutaneous lymphoma",
    "malignant dermal",
    "malignant epidermal",
    "malignant melanoma",
)

# Closely related names (acne, acne vulgaris) are names of their own there.
DIAGNOSES = (
    "acanthosis nigricans",
    "acne",
    "acne vulgaris",
    "acquired autoimmune bullous diseaseherpes gestationis",
    "acrodermatitis enteropathica",
    "actinic keratosis",
    "allergic contact dermatitis",
    "aplasia cutis",
    "basal cell carcinoma",
    "basal cell carcinoma morpheiform",
    "becker nevus",
    "behcets disease",
    "calcinosis cutis",
    "cheilitis",
    "congenital nevus",
    "dariers disease",
    "dermatofibroma",
    "dermatomyositis",
    "disseminated actinic porokeratosis",
    "drug eruption",
    "drug induced pigmentary changes",
    "dyshidrotic eczema",
    "eczema",
    "ehlers danlos syndrome",
    "epidermal nevus",
    "epidermolysis bullosa",
    "erythema annulare centrifigum",
    "erythema elevatum diutinum",
    "erythema multiforme",
    "erythema nodosum",
    "factitial dermatitis",
    "fixed eruptions",
    "folliculitis",
    "fordyce spots",
    "granuloma annulare",
    "granuloma pyogenic",
    "hailey hailey disease",
    "halo nevus",
    "hidradenitis",
    "ichthyosis vulgaris",
    "incontinentia pigmenti",
    "juvenile xanthogranuloma",
    "kaposi sarcoma",
    "keloid",
    "keratosis pilaris",
    "langerhans cell histiocytosis",
    "lentigo maligna",
    "lichen amyloidosis",
    "lichen planus",
    "lichen simplex",
    "livedo reticularis",
    "lupus erythematosus",
    "lupus subacute",
    "lyme disease",
    "lymphangioma",
    "malignant melanoma",
    "melanoma",
    "milia",
    "mucinosis",
    "mucous cyst",
    "mycosis fungoides",
    "myiasis",
    "naevus comedonicus",
    "necrobiosis lipoidica",
    "nematode infection",
    "neurodermatitis",
    "neurofibromatosis",
    "neurotic excoriations",
    "neutrophilic dermatoses",
    "nevocytic nevus",
    "nevus sebaceous of jadassohn",
    "papilomatosis confluentes and reticulate",
    "paronychia",
    "pediculosis lids",
    "perioral dermatitis",
    "photodermatoses",
    "pilar cyst",
    "pilomatricoma",
    "pityriasis lichenoides chronica",
    "pityriasis rosea",
    "pityriasis rubra pilaris",
    "porokeratosis actinic",
    "porokeratosis of mibelli",
    "porphyria",
    "port wine stain",
    "prurigo nodularis",
    "psoriasis",
    "pustular psoriasis",
    "pyogenic granuloma",
    "rhinophyma",
    "rosacea",
    "sarcoidosis",
    "scabies",
    "scleroderma",
    "scleromyxedema",
    "seborrheic dermatitis",
    "seborrheic keratosis",
    "solid cystic basal cell carcinoma",
    "squamous cell carcinoma",
    "stasis edema",
    "stevens johnson syndrome",
    "striae",
    "sun damaged skin",
    "superficial spreading melanoma ssm",
    "syringoma",
    "telangiectases",
    "tick bite",
    "tuberous sclerosis",
    "tungiasis",
    "urticaria",
    "urticaria pigmentosa",
    "vitiligo",
    "xanthomas",
    "xeroderma pigmentosum",
)


QC = ("1 Diagnostic", "2 Characteristic", "3 Wrongly labelled", "4 Other", "5 Potentially")
NAMES = {"label": DIAGNOSES, "nine_partition_label": NINE, "three_partition_label": THREE}


class Fitzpatrick17k(PublishedTable):
    """Fitzpatrick17k.

    Attributes:
        labels: the column that labels are taken from: 114 diagnoses, or nine or three groups of them.
        tones: the column that skin tones are taken from; an older table calls its only one `fitzpatrick`.
        leave_out_qc: leave out pictures with these judgements, e.g. `["3 Wrongly labelled"]`.
    """

    name: Literal["fitzpatrick17k"] = "fitzpatrick17k"
    labels: Literal["label", "nine_partition_label", "three_partition_label"] = "label"
    tones: Literal["fitzpatrick_scale", "fitzpatrick_centaur", "fitzpatrick"] = "fitzpatrick_scale"
    leave_out_qc: tuple[str, ...] = ()
    table: ClassVar = "fitzpatrick17k.csv"
    key: ClassVar = "md5hash"

    @field_validator("leave_out_qc")
    @classmethod
    def _known_judgements(cls, judgements: Sequence[str]) -> tuple[str, ...]:
        for judgement in judgements:
            if judgement not in QC:
                raise ValueError(f"there is no judgement {judgement!r}; {nearest(judgement, QC)}")
        return tuple(judgements)

    def manifest(self, folder: Path) -> Manifest:
        """One row per picture of the table that is not left out."""
        notes: list[str] = []
        lines = self.lines(folder, self.tones, *NAMES, "qc", notes=notes)
        lines = [line for line in lines if line["qc"] not in self.leave_out_qc]
        if not lines:
            raise AdapterError(f"`leave_out_qc` leaves out every picture of {folder / self.table}")
        codes = {name: name for name in NAMES[self.labels]}

        def cells(line: Line) -> dict[str, str]:
            tone = line[self.tones].removesuffix(".0")
            return {
                "label": code_of(line["md5hash"], line[self.labels], codes),
                "skin_tone": "" if tone == "-1" else tone,
                "diagnosis": line["label"],
                "nine_partition_label": line["nine_partition_label"],
                "three_partition_label": line["three_partition_label"],
                "qc": line["qc"],
            }

        return self.made(folder, lines, cells, notes, scale="fitzpatrick")
