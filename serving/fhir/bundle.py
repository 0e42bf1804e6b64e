"""The Bundle: the report, its observations, the model as a Device, and the Provenance that joins them.

A collection, to be read and stored, not executed. No patient, specimen or practitioner is made up: R4 lets a
report and an observation stand without a subject, and whoever stores them adds who it is. Ids follow from the
request's, so the same answer has the same ids.
"""

from collections.abc import Sequence
from functools import cache

from registry.bundle.labels import Label
from registry.environment import own_version
from serving.fhir.case import known_facts, media
from serving.fhir.elements import OWN, Element, clean, concept, identity, public, reference, urn
from serving.fhir.facts import properties
from serving.fhir.observations import observations
from serving.fhir.report import report
from serving.protocol.parameters import Parameters
from serving.protocol.schemas import Diagnosis


def fhir_bundle(diagnosis: Diagnosis, labels: Sequence[Label], parameters: Parameters) -> Element:
    """A diagnosis as a FHIR R4 Bundle.

    Args:
        diagnosis: what was answered.
        labels: the classes of the model that answered, with their codes.
        parameters: what the request declared.
    """
    device, about, origin = (
        identity(diagnosis.id, name) for name in ("Device", "DiagnosticReport", "Provenance")
    )
    found = list(observations(diagnosis, labels, parameters, device))
    results = [str(one["id"]) for one in found]
    pictures = media(diagnosis)
    shown = [str(one["id"]) for one in pictures]
    resources = [
        report(diagnosis, labels, about, results, shown),
        *found,
        *pictures,
        *known_facts(diagnosis),
        _device(diagnosis, device),
        _provenance(diagnosis, origin, device, [about, *results], shown),
    ]
    return {
        "resourceType": "Bundle",
        "id": identity(diagnosis.id, "Bundle"),
        "identifier": {"system": OWN + "diagnosis", "value": diagnosis.id},
        "type": "collection",
        "timestamp": diagnosis.created.isoformat(),
        "entry": [{"fullUrl": urn(one["id"]), "resource": one} for one in resources],
    }


def _device(diagnosis: Diagnosis, identifier: str) -> Element:
    """The version that answered."""
    model = diagnosis.model
    return {
        "resourceType": "Device",
        "id": identifier,
        "identifier": [{"system": OWN + "bundle", "value": model.digest}],
        "status": "active",
        "deviceName": [{"name": clean(model.name) or "?", "type": "model-name"}],
        "type": concept("Machine-learning model for skin pictures"),
        "version": [
            {"type": concept("version in the registry"), "value": str(model.version)},
            {"type": concept("dermfed"), "value": _software()},
        ],
        "property": properties(model),
        "note": [{"text": diagnosis.disclaimer}],
    }


@cache
def _software() -> str:
    """The dermfed that answers; looked up once, for that takes longer than all the rest."""
    return own_version()


def _provenance(
    diagnosis: Diagnosis, identifier: str, device: str, targets: Sequence[str], pictures: Sequence[str]
) -> Element:
    """What the model made out of what."""
    sources = [reference(one) for one in pictures]
    return {
        "resourceType": "Provenance",
        "id": identifier,
        "target": [reference(one) for one in targets],
        "recorded": diagnosis.created.isoformat(),
        "activity": concept("Automated assessment of a skin picture"),
        "agent": [
            {
                "type": concept("Assembler", public("provenance-participant-type", "assembler", "Assembler")),
                "who": reference(device),
            }
        ],
        "entity": [
            {"role": "source", "what": one}
            for one in sources or [{"display": "The picture that was sent; it was not kept"}]
        ],
    }
