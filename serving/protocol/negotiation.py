"""In which form a caller would have an answer: our own JSON, or FHIR (RFC 9110, 12.5.1), and errors in FHIR.

FHIR's own parameter `_format` goes before the header `Accept`; its `json` is FHIR's JSON (R4, 3.1.0.1.11).
"""

from collections.abc import Iterable
from typing import Final

from serving.protocol.fhir import OWN, Element, clean
from serving.protocol.problems import NotAcceptable, ProblemResponse

FHIR: Final = "application/fhir+json"

# `fhirVersion` of the media type, as callers write R4.
_RELEASES = frozenset({"", "4.0", "4.0.1"})

_FORMATS = frozenset({"json", "text/json", "application/json", FHIR})

# What stands for plain JSON, the closest first.
_JSON = ("application/json", "application/*", "*/*")

_LONGEST = 4000  # characters of a header that are looked at


def prefers_fhir(accept: Iterable[str], format_: str | None = None) -> bool:
    """Whether FHIR is asked for by name, and plain JSON is liked no better.

    Args:
        accept: the values of the header `Accept`; without one JSON is meant.
        format_: the value of `_format` in the query, if there is one.

    Raises:
        NotAcceptable: only what there is not is asked for, such as XML, or another FHIR than R4.
    """
    if format_:
        ((kind, parameters), *_) = _ranges(format_[:_LONGEST])
        # A `+` that is not escaped in a query is a space.
        if kind.replace(" ", "+") not in _FORMATS or parameters.get("fhirversion", "") not in _RELEASES:
            raise _nothing("`_format`", format_)
        return True
    fhir = 0.0
    json: dict[str, float] = {}
    asked = ",".join(accept)[:_LONGEST]
    for kind, parameters in _ranges(asked):
        weight = _weight(parameters.get("q", "1"))
        if kind == FHIR and parameters.get("fhirversion", "") in _RELEASES:
            fhir = max(fhir, weight)
        elif kind in _JSON:
            json[kind] = max(json.get(kind, 0.0), weight)
    # The range that names JSON most closely says how well it is liked.
    plain = next((json[kind] for kind in _JSON if kind in json), 0.0)
    if asked.strip() and not max(fhir, plain):
        raise _nothing("`Accept`", asked)
    return fhir > 0 and fhir >= plain


def _nothing(where: str, asked: str) -> NotAcceptable:
    return NotAcceptable(
        f"{where} is {asked[:100]!r}; a diagnosis is there as application/json, and in FHIR R4 as {FHIR}"
    )


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


_CODES: Final = {
    400: "structure",
    401: "login",
    403: "forbidden",
    404: "not-found",
    405: "not-supported",
    409: "conflict",
    413: "too-long",
    415: "not-supported",
    422: "value",
    429: "throttled",
    500: "exception",
    503: "transient",
}
"""FHIR's code of an issue, by status (http://hl7.org/fhir/ValueSet/issue-type)."""


def operation_outcome(problem: ProblemResponse) -> Element:
    """A problem as a FHIR R4 OperationOutcome; its code is the end of the problem's type."""
    title, detail = clean(problem.title), clean(str(problem.document("")["detail"]))
    return {
        "resourceType": "OperationOutcome",
        "issue": [
            {
                "severity": "fatal" if problem.status == 500 else "error",
                "code": _CODES.get(problem.status, "processing"),
                "details": {"coding": [{"system": OWN + "problem", "code": problem.name}], "text": title},
                "diagnostics": detail or title,
            }
        ],
    }
