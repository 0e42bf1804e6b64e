"""What a diagnosis says, one Observation for each: none is final, since no person has looked yet."""

from collections.abc import Iterator, Sequence
from typing import Final

from registry.bundle.labels import Label
from serving.fhir.case import body_site
from serving.fhir.elements import (
    Element,
    absent,
    class_concept,
    concept,
    identity,
    notes,
    own,
    probability,
    public,
    reference,
)
from serving.fhir.facts import components, observed, own_value
from serving.protocol.parameters import Parameters
from serving.protocol.schemas import Answer, Diagnosis, MalignancyRisk, Reason, TriageEvidence
from serving.protocol.triage import headline

DECISIONS: Final = {
    "report": "The model is sure enough to answer",
    "refer": "A clinician has to judge the lesion",
    "retake": "The picture has to be taken again",
}

_CATEGORY = concept("Imaging", public("observation-category", "imaging", "Imaging"))
_INDETERMINATE = {
    "interpretation": [
        concept("Indeterminate", public("v3-ObservationInterpretation", "IND", "Indeterminate"))
    ]
}


def observations(
    diagnosis: Diagnosis, labels: Sequence[Label], parameters: Parameters, device: str
) -> Iterator[Element]:
    """All of them: triage if any, decision, findings, prediction set, malignancy and quality.

    Where nothing is reported, the decision, the findings and the malignancy are indeterminate.

    Args:
        diagnosis: what was answered.
        labels: the classes of the model.
        parameters: what the request declared.
        device: the id of the Device that stands for the model.
    """
    doubt = {} if diagnosis.decision == "report" else _INDETERMINATE

    def observation(name: str, code: Element, **parts: object) -> Element:
        return {
            "resourceType": "Observation",
            "id": identity(diagnosis.id, f"Observation/{name}"),
            "status": "preliminary",
            "category": [_CATEGORY],
            "code": code,
            "issued": diagnosis.created.isoformat(),
            "device": reference(device),
            **parts,
        }

    evidence, triaged = diagnosis.triage_evidence, headline(diagnosis)
    if diagnosis.triage is not None and evidence is not None and triaged is not None:
        yield observation(
            "triage",
            observed("triage", "Who has to see the lesion"),
            valueCodeableConcept=own_value("triage", diagnosis.triage, triaged),
            component=[*components(evidence), *_limits(evidence)],
        )
    yield observation(
        "decision",
        observed("decision", "Decision"),
        valueCodeableConcept=own_value("decision", diagnosis.decision, DECISIONS[diagnosis.decision]),
        component=[
            _declared_tone(parameters),
            *map(_reason, diagnosis.reasons),
            *components(diagnosis),
            *(components(diagnosis.inputs) if diagnosis.inputs else []),
        ],
        **body_site(diagnosis),
        **doubt,
        **notes(diagnosis.warnings),
    )
    for number, finding in enumerate(diagnosis.findings):
        yield observation(
            f"finding/{number}",
            observed("class-probability", f"Probability of {finding.name}"),
            valueQuantity=probability(finding.probability),
            component=[_class(finding.code, labels), *components(finding)],
            **doubt,
        )
    yield observation(
        "prediction-set",
        observed("prediction-set", "Classes that are possible"),
        component=[
            *(_class(code, labels) for code in diagnosis.prediction_set.codes),
            *components(diagnosis.prediction_set),
        ],
    )
    risk = diagnosis.malignancy
    yield observation(
        "malignancy",
        observed("malignancy-probability", "Probability that the lesion is malignant"),
        **(
            {"dataAbsentReason": absent("not-applicable", "Not Applicable")}
            if risk.probability is None
            else {"valueQuantity": probability(risk.probability)}
        ),
        **_with(risk),
        **{**doubt, **_beside_working_point(risk, doubt)},
    )
    yield observation(
        "quality",
        observed("picture-quality", "Whether the picture can be judged"),
        valueBoolean=diagnosis.quality.acceptable,
        **_with(diagnosis.quality),
        **notes(diagnosis.quality.issues),
    )


def _limits(evidence: TriageEvidence) -> Iterator[Element]:
    """The lesions behind each limit of triage, and the limit and what it may be."""
    missed, urgent = evidence.missed, evidence.false_alarms
    for one in missed.kinds:
        yield from _limit("missed", f"{one.kind}: ruled out", one.missed, one.n, one.high, missed.limit)
    yield from _limit(
        "false-alarms", "Not malignant: urgent", urgent.seen, urgent.n, urgent.high, urgent.limit
    )


def _limit(code: str, text: str, x: int, n: int, high: float, limit: float) -> Iterator[Element]:
    yield {
        "code": observed(f"triage-{code}", f"{text}, of calibration lesions"),
        "valueRatio": {"numerator": {"value": x}, "denominator": {"value": n}},
    }
    yield {
        "code": observed(f"triage-{code}-limit", f"{text}, upper limit of the share"),
        "valueQuantity": probability(high),
        "referenceRange": [{"high": probability(limit), "text": "what it may be"}],
    }


def _declared_tone(parameters: Parameters) -> Element:
    """The skin tone as it was declared: a text, for the scales have no code that everybody shares."""
    code = observed("declared-skin-tone", "Declared skin tone")
    if parameters.skin_tone is None:
        return {"code": code, "dataAbsentReason": absent("unknown", "Unknown")}
    return {"code": code, "valueString": f"{parameters.skin_tone} ({parameters.skin_tone_scale})"}


def _reason(reason: Reason) -> Element:
    return {
        "code": observed("reason", "Why the decision is this one, or why this version answered"),
        "valueCodeableConcept": own_value("reason", reason.code, reason.text),
    }


def _class(code: str, labels: Sequence[Label]) -> Element:
    return {"code": observed("class", "Class"), "valueCodeableConcept": class_concept(code, labels)}


def _beside_working_point(risk: MalignancyRisk, doubt: Element) -> Element:
    """On which side of the working point a malignancy is; below it is not said to be normal."""
    if risk.threshold is None:
        return {}
    side = own("interpretation", "above-working-point" if risk.above else "below-working-point")
    high = [public("v3-ObservationInterpretation", "H", "High")] if risk.above else []
    said = concept("Suspicious" if risk.above else "Below the working point", side, *high)
    return {
        "interpretation": [*doubt.get("interpretation", []), said],
        "referenceRange": [
            {"high": probability(risk.threshold), "text": "the working point: from this on suspicious"}
        ],
    }


def _with(part: Answer) -> Element:
    """The components of a part that are told beside its value, if it has any."""
    found = components(part)
    return {"component": found} if found else {}
