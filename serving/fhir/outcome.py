"""The OperationOutcome: what went wrong, for a caller who asked for FHIR."""

from typing import Final

from serving.fhir.elements import OWN, Element, clean
from serving.protocol.problems import ProblemResponse

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
