"""The DiagnosticReport: what was concluded, in words, and in a code only where a result is reported.

Its status is `partial`, which in R4 is a report that may be unverified, and never `final`, which is one that
a person has verified.
"""

from collections.abc import Sequence
from html import escape

from registry.bundle.labels import Label
from serving.fhir.elements import OWN, Element, class_concept, clean, concept, own, public, reference
from serving.fhir.observations import DECISIONS
from serving.protocol.schemas import Diagnosis
from serving.protocol.triage import headline, shown


def report(
    diagnosis: Diagnosis,
    labels: Sequence[Label],
    identifier: str,
    results: Sequence[str],
    media: Sequence[str] = (),
) -> Element:
    """The report over the observations of one diagnosis.

    Args:
        diagnosis: what was answered.
        labels: the classes of the model.
        identifier: the report's id.
        results: the ids of the observations.
        media: the ids of the pictures of a case.
    """
    said = list(dict.fromkeys(clean(line) for line in conclusion(diagnosis, labels) if clean(line)))
    shown = "".join(f"<p>{escape(line)}</p>" for line in said)
    sure = diagnosis.conclusion
    first = [one.code for one in diagnosis.findings[:1]]
    coded = first if sure is None else [sure.code] if sure.level == "diagnosis" else []
    return {
        "resourceType": "DiagnosticReport",
        "id": identifier,
        "text": {
            "status": "generated",
            "div": f'<div xmlns="http://www.w3.org/1999/xhtml">{shown}</div>',
        },
        "identifier": [{"system": OWN + "diagnosis", "value": diagnosis.id}],
        "status": "partial",
        "category": [concept("Diagnostic imaging", public("v2-0074", "IMG", "Diagnostic Imaging"))],
        "code": concept("Automated assessment of a skin picture", own("observation", "report")),
        "issued": diagnosis.created.isoformat(),
        "result": [reference(one) for one in results],
        **({"media": [{"link": reference(one)} for one in media]} if media else {}),
        "conclusion": " ".join(said),
        **(
            {"conclusionCode": [class_concept(coded[0], labels)]}
            if coded and diagnosis.decision == "report"
            else {}
        ),
    }


def conclusion(diagnosis: Diagnosis, labels: Sequence[Label]) -> list[str]:
    """What was concluded, sentence by sentence: triage, decision, reasons, and what all this is not."""
    if diagnosis.decision == "report" and diagnosis.findings:
        names = {label.code: label.name for label in labels}
        first = diagnosis.findings[0]
        left = ", ".join(names.get(code, code) for code in diagnosis.prediction_set.codes)
        sure = diagnosis.conclusion
        lines = [
            *([] if sure is None else [f"Concluded: {sure.name} ({_percent(sure.probability)} %)."]),
            f"Most probable: {first.name} ({_percent(first.probability)} %).",
            f"Possible: {left}." if left else "No class is likely enough for the prediction set.",
        ]
    else:
        lines = [f"No result is reported. {DECISIONS[diagnosis.decision]}."]
    reasons = [reason.text for reason in diagnosis.reasons]
    triaged = headline(diagnosis)
    urgency = [] if triaged is None else [f"{triaged}.", *shown(diagnosis)]
    return [*urgency, *lines, *reasons, *diagnosis.quality.issues, *diagnosis.warnings, diagnosis.disclaimer]


def _percent(probability: float) -> str:
    """Whole per cents, of which a hundred would be a certainty that no model has."""
    return f"{100 * probability:.0f}" if probability < 0.995 else "more than 99"
