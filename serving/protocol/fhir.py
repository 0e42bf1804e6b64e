"""The Bundle: the report, its observations, the model as a Device, and the Provenance that joins them.

A collection, to be read and stored, not executed. No patient, specimen or practitioner is made up: in R4 a
report and an observation need no subject, and the system that stores them adds it. Ids are derived from the
request's id, so the same answer has the same ids. No observation is final, since no person has reviewed it;
the report is `partial`, which in R4 may be unverified. It has a code only where a result is reported.

The pieces that the resources are made of: codes, concepts, quantities, references, and single fields.

What has no code in a public system has one of ours, under a URI that begins with `urn:dermfed:`, or a text
alone. A code of a class that a terminologist has yet to look at carries the extension `UNCERTAIN`. A field of
an answer that is one value is a component of an Observation, called as its `Coded` says.
"""

import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import Any, Final

from registry.bundle.labels import Label
from registry.environment import own_version
from serving.protocol.fields import coded
from serving.protocol.parameters import Parameters
from serving.protocol.schemas import (
    Answer,
    Diagnosis,
    MalignancyRisk,
    Reason,
    TriageEvidence,
    headline,
    shown,
)

OWN: Final = "urn:dermfed:"
UNCERTAIN: Final = OWN + "uncertain-coding"
"""The extension of a code on which published lists disagree."""

TERMINOLOGY: Final = "http://terminology.hl7.org/CodeSystem/"

Element = dict[str, Any]


def identity(request_id: str, name: str) -> str:
    """The id of a resource: the same for the same request and name, and never that of another."""
    try:
        space = uuid.UUID(request_id)
    except ValueError:
        space = uuid.uuid5(uuid.NAMESPACE_URL, OWN + request_id)
    return str(uuid.uuid5(space, name))


def clean(text: str) -> str:
    """A text as FHIR allows it: no control characters, one space at a time, none at the ends."""
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.split())


def own(system: str, code: str, display: str | None = None) -> Element:
    """A coding in a system of ours."""
    shown = {"display": clean(display)} if display and clean(display) else {}
    return {"system": OWN + system, "code": clean(code), **shown}


def public(system: str, code: str, display: str) -> Element:
    """A coding in one of HL7's systems."""
    return {"system": TERMINOLOGY + system, "code": code, "display": display}


def concept(text: str, *codings: Element) -> Element:
    """A concept with its codes; those without a code are left out."""
    given = [coding for coding in codings if coding["code"]]
    named = {"text": clean(text)} if clean(text) else {}
    return {**({"coding": given} if given else {}), **named} or {"text": "?"}


def class_concept(code: str, labels: Sequence[Label]) -> Element:
    """A class of the model: its own code, and the ones that the bundle has for it."""
    label = next((label for label in labels if label.code == code), None)
    if label is None:
        return concept(code, own("class", code))
    return concept(label.name, own("class", code, label.name), *map(_coding, label.codings))


def _coding(given: Any) -> Element:
    """A code of another system, marked where it is uncertain."""
    marked = {} if given.certain else {"extension": [{"url": UNCERTAIN, "valueBoolean": True}]}
    version = {"version": clean(given.version)} if given.version and clean(given.version) else {}
    display = {"display": clean(given.display)} if clean(given.display) else {}
    system = clean(given.system).replace(" ", "")
    return {**marked, "system": system, **version, "code": clean(given.code), **display}


def quantity(value: float, unit: str, code: str) -> Element:
    """A number with its unit, which has a code in UCUM."""
    return {"value": value, "unit": unit, "system": "http://unitsofmeasure.org", "code": code}


def probability(value: float) -> Element:
    """A probability: a number without a unit, which UCUM calls 1."""
    return quantity(value, "probability", "1")


def absent(code: str, display: str) -> Element:
    """Why there is no value."""
    return {"coding": [public("data-absent-reason", code, display)]}


def notes(texts: Sequence[str]) -> Element:
    """Remarks, if there are any."""
    said = [{"text": clean(text)} for text in texts if clean(text)]
    return {"note": said} if said else {}


def reference(identifier: str) -> Element:
    """A reference to a resource of the same bundle."""
    return {"reference": f"urn:uuid:{identifier}"}


def components(part: Answer) -> list[Element]:
    """The components that fields of a part of an answer are."""
    return [{"code": observed(one.code, one.title), **_value(one.code, value)} for one, value in coded(part)]


def observed(code: str, text: str) -> Element:
    """What an Observation or a component of it is about."""
    return concept(text, own("observation", code))


def own_value(system: str, code: str, text: str) -> Element:
    """A value that has a code of ours."""
    return concept(text, own(system, code))


def _value(code: str, value: bool | int | float | str) -> Element:
    """The value of a component, by its type; a fraction is a probability."""
    match value:
        case bool():
            return {"valueBoolean": value}
        case int():
            return {"valueInteger": value}
        case float():
            return {"valueQuantity": probability(value)}
    return {"valueCodeableConcept": own_value(code, value, value)}


SITE: Final = "site"
_LOINC: Final = {"age": ("30525-0", "Age"), "sex": ("46098-0", "Sex")}


def _resource(diagnosis: Diagnosis, kind: str, name: str = "", **parts: object) -> Element:
    """A resource, whose id follows from the request's and its own name."""
    identifier = identity(diagnosis.id, f"{kind}/{name}" if name else kind)
    return {"resourceType": kind, "id": identifier, **parts}


def _observation(diagnosis: Diagnosis, name: str, code: Element, **parts: object) -> Element:
    """An Observation, which is never final."""
    issued = diagnosis.created.isoformat()
    return _resource(diagnosis, "Observation", name, status="preliminary", code=code, issued=issued, **parts)


def body_site(diagnosis: Diagnosis) -> Element:
    """The element `bodySite`, if it is known."""
    site = diagnosis.inputs.facts.get(SITE) if diagnosis.inputs else None
    return {} if site is None else {"bodySite": concept(site.replace("_", " "), own("site", site))}


def media(diagnosis: Diagnosis) -> list[Element]:
    """A Media for each picture of a case, which says of what kind it is; its content was not kept."""
    kinds = diagnosis.inputs.pictures if diagnosis.inputs else []
    return [
        _resource(
            diagnosis,
            *("Media", str(number)),
            status="completed",
            type=concept("Image", public("media-type", "image", "Image")),
            view=own_value("picture-kind", kind, kind),
            content={"title": f"{kind} picture; it was not kept"},
            **body_site(diagnosis),
        )
        for number, kind in enumerate(kinds)
    ]


def known_facts(diagnosis: Diagnosis) -> list[Element]:
    """An Observation of each fact that was sent but the body site: not found by the model, and not final."""
    facts = diagnosis.inputs.facts if diagnosis.inputs else {}
    return [
        _observation(diagnosis, f"fact/{name}", _code(name), **_bundle_value(name, text))
        for name, text in facts.items()
        if name != SITE
    ]


def _code(name: str) -> Element:
    if name not in _LOINC:
        return observed("fact", name.replace("_", " "))
    code, display = _LOINC[name]
    return concept(display, {"system": "http://loinc.org", "code": code, "display": display})


def _bundle_value(name: str, text: str) -> Element:
    """The value: an age as a number, a sex as an HL7 code, anything else as the text that was understood."""
    if name == "age":
        return {"valueQuantity": quantity(float(text), "years", "a")}
    if name == "sex":
        coding = {"system": "http://hl7.org/fhir/administrative-gender", "code": text}
        return {"valueCodeableConcept": concept(text, coding)}
    return {"valueString": clean(text) or "?"}


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
        device: the id of the Device that represents the model.
    """
    doubt = {} if diagnosis.decision == "report" else _INDETERMINATE

    def observation(name: str, code: Element, **parts: object) -> Element:
        return _observation(diagnosis, name, code, category=[_CATEGORY], device=reference(device), **parts)

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
        **_how_probable(risk),
        **({"component": known} if (known := components(risk)) else {}),
        **{**doubt, **_beside_working_point(risk, doubt)},
    )
    yield observation(
        "quality",
        observed("picture-quality", "Whether the picture can be judged"),
        valueBoolean=diagnosis.quality.acceptable,
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
    ratio = {"numerator": {"value": x}, "denominator": {"value": n}}
    allowed = [{"high": probability(limit), "text": "what it may be"}]
    yield {"code": observed(f"triage-{code}", f"{text}, of calibration lesions"), "valueRatio": ratio}
    share = observed(f"triage-{code}-limit", f"{text}, upper limit of the share")
    yield {"code": share, "valueQuantity": probability(high), "referenceRange": allowed}


def _declared_tone(parameters: Parameters) -> Element:
    """The skin tone as it was declared: a text, for the scales have no common code."""
    code = observed("declared-skin-tone", "Declared skin tone")
    if parameters.skin_tone is None:
        return {"code": code, "dataAbsentReason": absent("unknown", "Unknown")}
    return {"code": code, "valueString": f"{parameters.skin_tone} ({parameters.skin_tone_scale})"}


def _reason(reason: Reason) -> Element:
    code = observed("reason", "Why the decision is this one, or why this version answered")
    return {"code": code, "valueCodeableConcept": own_value("reason", reason.code, reason.text)}


def _class(code: str, labels: Sequence[Label]) -> Element:
    return {"code": observed("class", "Class"), "valueCodeableConcept": class_concept(code, labels)}


def _beside_working_point(risk: MalignancyRisk, doubt: Element) -> Element:
    """On which side of the working point a malignancy is; below it is not said to be normal."""
    if risk.threshold is None:
        return {}
    side = own("interpretation", "above-working-point" if risk.above else "below-working-point")
    high = [public("v3-ObservationInterpretation", "H", "High")] if risk.above else []
    said = concept("Suspicious" if risk.above else "Below the working point", side, *high)
    limit = {"high": probability(risk.threshold), "text": "the working point: from this on suspicious"}
    return {"interpretation": [*doubt.get("interpretation", []), said], "referenceRange": [limit]}


def _how_probable(risk: MalignancyRisk) -> Element:
    if risk.probability is None:
        return {"dataAbsentReason": absent("not-applicable", "Not Applicable")}
    return {"valueQuantity": probability(risk.probability)}


def _report(
    diagnosis: Diagnosis, labels: Sequence[Label], results: Sequence[Element], pictures: Sequence[Element]
) -> Element:
    """The report over the observations of one diagnosis, and the pictures of a case."""
    said = list(dict.fromkeys(clean(line) for line in conclusion(diagnosis, labels) if clean(line)))
    shown = "".join(f"<p>{escape(line)}</p>" for line in said)
    sure = diagnosis.conclusion
    first = [one.code for one in diagnosis.findings[:1]]
    coded = first if sure is None else [sure.code] if sure.level == "diagnosis" else []
    parts: Element = {}
    if pictures:
        parts["media"] = [{"link": reference(one["id"])} for one in pictures]
    if coded and diagnosis.decision == "report":
        parts["conclusionCode"] = [class_concept(coded[0], labels)]
    return _resource(
        diagnosis,
        "DiagnosticReport",
        text={"status": "generated", "div": f'<div xmlns="http://www.w3.org/1999/xhtml">{shown}</div>'},
        identifier=[{"system": OWN + "diagnosis", "value": diagnosis.id}],
        status="partial",
        category=[concept("Diagnostic imaging", public("v2-0074", "IMG", "Diagnostic Imaging"))],
        code=concept("Automated assessment of a skin picture", own("observation", "report")),
        issued=diagnosis.created.isoformat(),
        result=[reference(one["id"]) for one in results],
        conclusion=" ".join(said),
        **parts,
    )


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


def fhir_bundle(diagnosis: Diagnosis, labels: Sequence[Label], parameters: Parameters) -> Element:
    """A diagnosis as a FHIR R4 Bundle.

    Args:
        diagnosis: what was answered.
        labels: the classes of the model that answered, with their codes.
        parameters: what the request declared.
    """
    device = _device(diagnosis)
    found = list(observations(diagnosis, labels, parameters, device["id"]))
    pictures = media(diagnosis)
    about = _report(diagnosis, labels, found, pictures)
    origin = _provenance(diagnosis, device, [about, *found], pictures)
    resources = [about, *found, *pictures, *known_facts(diagnosis), device, origin]
    return {
        "resourceType": "Bundle",
        "id": identity(diagnosis.id, "Bundle"),
        "identifier": {"system": OWN + "diagnosis", "value": diagnosis.id},
        "type": "collection",
        "timestamp": diagnosis.created.isoformat(),
        "entry": [{"fullUrl": f"urn:uuid:{one['id']}", "resource": one} for one in resources],
    }


def _device(diagnosis: Diagnosis) -> Element:
    """The version that answered."""
    model = diagnosis.model
    return _resource(
        diagnosis,
        "Device",
        identifier=[{"system": OWN + "bundle", "value": model.digest}],
        status="active",
        deviceName=[{"name": clean(model.name) or "?", "type": "model-name"}],
        type=concept("Machine-learning model for skin pictures"),
        version=[
            {"type": concept("version in the registry"), "value": str(model.version)},
            {"type": concept("dermfed"), "value": _software()},
        ],
        property=[{"type": concept("Subgroup it is for"), "valueCode": [concept(model.subgroup)]}],
        note=[{"text": diagnosis.disclaimer}],
    )


@cache
def _software() -> str:
    """The dermfed that answers; looked up once, for that takes longer than all the rest."""
    return own_version()


def _provenance(
    diagnosis: Diagnosis, device: Element, targets: Sequence[Element], pictures: Sequence[Element]
) -> Element:
    """What the model made out of what."""
    assembler = concept("Assembler", public("provenance-participant-type", "assembler", "Assembler"))
    sources = [reference(one["id"]) for one in pictures]
    return _resource(
        diagnosis,
        "Provenance",
        target=[reference(one["id"]) for one in targets],
        recorded=diagnosis.created.isoformat(),
        activity=concept("Automated assessment of a skin picture"),
        agent=[{"type": assembler, "who": reference(device["id"])}],
        entity=[
            {"role": "source", "what": one}
            for one in sources or [{"display": "The picture that was sent; it was not kept"}]
        ],
    )
