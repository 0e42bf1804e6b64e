"""Which of the two answers a caller would rather have: our own JSON, or FHIR (RFC 9110, 12.5.1)."""

from collections.abc import Iterable
from typing import Final

FHIR: Final = "application/fhir+json"

# `fhirVersion` of the media type, as callers write R4.
_RELEASES = frozenset({"", "4.0", "4.0.1"})

# What stands for plain JSON, the closest first.
_JSON = ("application/json", "application/*", "*/*")

_LONGEST = 4000  # characters of a header that are looked at


def prefers_fhir(accept: Iterable[str]) -> bool:
    """Whether FHIR is asked for by name, and plain JSON is liked no better.

    Whoever would take neither gets JSON: a diagnosis that is there is not withheld for its form.

    Args:
        accept: the values of the header `Accept`.
    """
    fhir = 0.0
    json: dict[str, float] = {}
    for kind, parameters in _ranges(",".join(accept)[:_LONGEST]):
        weight = _weight(parameters.get("q", "1"))
        if kind == FHIR and parameters.get("fhirversion", "") in _RELEASES:
            fhir = max(fhir, weight)
        elif kind in _JSON:
            json[kind] = max(json.get(kind, 0.0), weight)
    # The range that names JSON most closely says how well it is liked.
    return fhir > 0 and fhir >= next((json[kind] for kind in _JSON if kind in json), 0.0)


def _ranges(header: str) -> Iterable[tuple[str, dict[str, str]]]:
    """The media ranges of a header, each with its parameters."""
    for part in header.split(","):
        kind, *rest = part.split(";")
        pairs = (one.partition("=") for one in rest)
        yield (
            kind.strip().lower(),
            {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs},
        )


def _weight(text: str) -> float:
    """A weight from 0 to 1; what is none counts as 0."""
    digits = text.replace(".", "", 1)
    return min(float(text), 1.0) if digits.isascii() and digits.isdecimal() and len(text) <= 5 else 0.0
