"""The code of a diagnosis by its name, as published data sets and four languages have it.

What is not known is never guessed at.
"""

from collections.abc import Mapping
from functools import cache

from clients.data.adapters.derm7pt import CODES
from clients.data.adapters.lesion_tables import HAM10000_CODES, ISIC2020_CODES, PAD_UFES_20_CODES
from clients.data.taxonomy import BENIGN, MALIGNANT, TAXONOMY

_NAMES: Mapping[str, tuple[str, ...]] = {
    "MEL": ("melanom", "malignes melanom", "mélanome", "melanoma maligno"),
    "NV": (
        *("naevus", "melanocytic naevus", "nävus", "nävuszellnävus", "melanozytärer nävus"),
        *("naevus mélanocytaire", "nevo", "nevo melanocítico"),
    ),
    "BCC": ("basalzellkarzinom", "basaliom", "carcinome basocellulaire", "carcinoma basocelular"),
    "SCC": (
        *("squamous cell carcinoma", "plattenepithelkarzinom", "spinaliom", "carcinome épidermoïde"),
        *("carcinoma espinocelular", "carcinoma epidermoide"),
    ),
    "AK": ("actinic keratosis", "aktinische keratose", "kératose actinique", "queratosis actínica"),
    "BKL": (
        *("seborrhoeic keratosis", "seborrhoische keratose", "kératose séborrhéique"),
        "queratosis seborreica",
    ),
    "DF": ("dermatofibrom", "dermatofibrome"),
    "VASC": ("hämangiom", "hémangiome", "hemangioma"),
}


@cache
def _codes() -> dict[str, str]:
    """The code of each name in small letters."""
    published = (CODES, HAM10000_CODES, ISIC2020_CODES, PAD_UFES_20_CODES)
    names = {name.lower(): code for codes in published for name, code in codes.items() if code in TAXONOMY}
    names |= {name: code for code, others in _NAMES.items() for name in others}
    names |= {label.name.lower(): code for code, label in TAXONOMY.items()}
    return names | {code.lower(): code for code in (*TAXONOMY, BENIGN.code, MALIGNANT.code)}


def known_code(label: str) -> str | None:
    """The code that a label means; None for one that is not known."""
    return _codes().get(" ".join(label.lower().split()))
