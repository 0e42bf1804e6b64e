"""Synthetic cases: the patient, tone, class and view of each synthetic picture.

Pictures come in groups of six: five lesions of four patients. The fourth patient has two lesions, and the
last lesion has two pictures. So every split has to respect both. A picture depends on (seed, index) alone,
however many are made.
"""

from dataclasses import dataclass

import numpy as np

TONE_COUNTS = (2944, 4807, 3306, 2781, 1531, 634)
"""Pictures of Fitzpatrick type I to VI in Fitzpatrick17k: the dark end is rare, as in real collections."""

TYPICAL = 0.45
"""By default; the least typical lesions can hardly be told apart."""

LABEL_SHARES = {"MEL": 0.25, "NV": 0.35, "BCC": 0.2, "BKL": 0.2}

_PICTURES, _LESIONS, _PATIENTS = 6, 5, 4  # in a group


@dataclass(frozen=True)
class Case:
    """The patient, tone and class of one synthetic picture.

    Attributes:
        seed: of all pictures.
        index: the picture's number.
        lesion: the lesion's number.
        patient: the patient's number.
        view: which picture of its lesion it is, from 0.
        label: its code.
        tone: Fitzpatrick type, 1 to 6.
        typical: how typical of its class the least typical lesion is, from 0 to 1.
    """

    seed: int
    index: int
    lesion: int
    patient: int
    view: int
    label: str
    tone: int
    typical: float = TYPICAL


def case_of(seed: int, index: int, typical: float = TYPICAL) -> Case:
    """The case of picture `index`."""
    group, position = divmod(index, _PICTURES)
    lesion = group * _LESIONS + min(position, _LESIONS - 1)
    patient = group * _PATIENTS + min(position, _PATIENTS - 1)
    label = random_for(seed, "label", lesion).choice(list(LABEL_SHARES), p=list(LABEL_SHARES.values()))
    shares = np.array(TONE_COUNTS) / sum(TONE_COUNTS)
    tone = random_for(seed, "tone", patient).choice(len(shares), p=shares) + 1
    return Case(seed, index, lesion, patient, position // _LESIONS, str(label), int(tone), typical)


def random_for(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A random generator of its own for each (seed, purpose, numbers)."""
    return np.random.default_rng([seed, int.from_bytes(purpose.encode()), *numbers])
