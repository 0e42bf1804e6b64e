"""The scales on which skin tone is declared.

Scales are never mixed and never converted: a Monk 6 is not a Fitzpatrick IV, and `milk10k` runs from dark
to light while the others run from light to dark. Values are strings; only their spelling is unified.
"""

from collections.abc import Mapping

from registry.bundle.nearest import nearest

SCALES: Mapping[str, tuple[str, ...]] = {
    "fitzpatrick": ("1", "2", "3", "4", "5", "6"),  # 1 (I) very light to 6 (VI) very dark
    "monk": ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10"),  # 1 lightest to 10 darkest
    "milk10k": ("0", "1", "2", "3", "4", "5"),  # 0 very dark to 5 very light
    "ddi": ("12", "34", "56"),  # pairs of Fitzpatrick types
}

_ROMAN = {"I": "1", "II": "2", "III": "3", "IV": "4", "V": "5", "VI": "6"}


def read_scale(scale: str) -> str:
    """The scale's name as this module spells it.

    Raises:
        ValueError: no such scale.
    """
    name = scale.strip().lower()
    if name not in SCALES:
        raise ValueError(f"skin tone scale {scale!r} does not exist; {nearest(name, list(SCALES))}")
    return name


def read_tone(value: str, scale: str) -> str:
    """A declared tone as this module spells it: `IV` and `4.0` on the Fitzpatrick scale are `4`.

    Raises:
        ValueError: no such scale, or no such value on it.
    """
    name = read_scale(scale)
    tone = value.strip()
    if name == "fitzpatrick":
        tone = _ROMAN.get(tone.upper(), tone)
    # A column with gaps that passed through a float column comes back as "4.0".
    tone = tone.removesuffix(".0")
    if tone not in SCALES[name]:
        raise ValueError(
            f"skin tone {value!r} is not on the scale {name}; allowed: {allowed_tones(name)}, or empty"
        )
    return tone


def allowed_tones(scale: str) -> str:
    """The values of a known scale as messages list them."""
    tones = ", ".join(SCALES[scale])
    return f"{tones} (or I to VI)" if scale == "fitzpatrick" else tones


def canonical_tone(value: str, scale: str) -> str:
    """The canonical spelling of a tone; unchanged where the scale or the value is unknown."""
    try:
        return read_tone(value, scale)
    except ValueError:
        return value
