"""What a diagnosis says, one Observation for each: none is final, since no person has looked yet."""

from collections.abc import Iterator, Sequence
from typing import Final

from registry.bundle.labels import Label
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
from serving.parameters import Parameters
from serving.schemas import Diagnosis, Finding, Reason

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
    """All of them: decision, findings, prediction set, malignancy, confidence and quality.

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

    yield observation(
        "decision",
        _code("decision", "Decision"),
        valueCodeableConcept=_own_value("decision", diagnosis.decision, DECISIONS[diagnosis.decision]),
        component=[_declared_tone(parameters), *map(_reason, diagnosis.reasons)],
        **doubt,
        **notes(diagnosis.warnings),
    )
    for number, finding in enumerate(diagnosis.findings):
        yield observation(
            f"finding/{number}",
            _code("class-probability", f"Probability of {finding.name}"),
            valueQuantity=probability(finding.probability),
            component=_class(finding, labels),
            **doubt,
        )
    yield observation(
        "prediction-set",
        _code("prediction-set", "Classes that are not ruled out"),
        component=list(_set(diagnosis, labels)),
    )
    risk = diagnosis.malignancy.probability
    yield observation(
        "malignancy",
        _code("malignancy-probability", "Probability that the lesion is malignant"),
        **(
            {"dataAbsentReason": absent("not-applicable", "Not Applicable")}
            if risk is None
            else {"valueQuantity": probability(risk)}
        ),
        **doubt,
    )
    yield observation("confidence", _code("confidence", "Highest probability"), **_confidence(diagnosis))
    yield observation(
        "quality",
        _code("picture-quality", "Whether the picture can be judged"),
        valueBoolean=diagnosis.quality.acceptable,
        **notes(diagnosis.quality.issues),
    )


def _code(code: str, text: str) -> Element:
    return concept(text, own("observation", code))


def _own_value(system: str, code: str, text: str) -> Element:
    return concept(text, own(system, code))


def _declared_tone(parameters: Parameters) -> Element:
    """The skin tone as it was declared: a text, for the scales have no code that everybody shares."""
    code = _code("declared-skin-tone", "Declared skin tone")
    if parameters.skin_tone is None:
        return {"code": code, "dataAbsentReason": absent("unknown", "Unknown")}
    return {"code": code, "valueString": f"{parameters.skin_tone} ({parameters.skin_tone_scale})"}


def _reason(reason: Reason) -> Element:
    return {
        "code": _code("reason", "Why the decision is this one, or why this version answered"),
        "valueCodeableConcept": _own_value("reason", reason.code, reason.text),
    }


def _class(finding: Finding, labels: Sequence[Label]) -> list[Element]:
    return [
        {"code": _code("class", "Class"), "valueCodeableConcept": class_concept(finding.code, labels)},
        {
            "code": _code("malignancy", "Malignancy of the class"),
            "valueCodeableConcept": _own_value("malignancy", finding.malignancy, finding.malignancy),
        },
    ]


def _set(diagnosis: Diagnosis, labels: Sequence[Label]) -> Iterator[Element]:
    chosen = diagnosis.prediction_set
    for code in chosen.codes:
        yield {"code": _code("class", "Class"), "valueCodeableConcept": class_concept(code, labels)}
    yield {"code": _code("coverage", "Coverage aimed at"), "valueQuantity": probability(chosen.coverage)}
    yield {
        "code": _code("guarantee", "For whom the coverage is promised"),
        "valueCodeableConcept": _own_value("guarantee", chosen.guarantee, chosen.guarantee),
    }
    yield {
        "code": _code("calibration-lesions", "Lesions that the promise rests on"),
        "valueInteger": chosen.calibration_n,
    }


def _confidence(diagnosis: Diagnosis) -> Element:
    confidence = diagnosis.confidence
    return {
        "valueQuantity": probability(confidence.value),
        "referenceRange": [
            {"low": probability(confidence.threshold), "text": "below this the lesion is referred"}
        ],
        "component": [
            {
                "code": _code("calibration-pictures", "Pictures that the threshold rests on"),
                "valueInteger": confidence.calibrated_on_n,
            }
        ],
    }
