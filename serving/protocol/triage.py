"""Triage in sentences: who has to see the lesion, and what that rests on, for the page and FHIR."""

from math import ceil
from typing import Final

from registry.bundle.decision import Level
from serving.protocol.schemas import Diagnosis, TriageEvidence

HEADLINES: Final[dict[Level, str]] = {
    "urgent": "Urgent: a clinician has to see this lesion before others",
    "routine": "Routine: a clinician looks",
    "ruled-out": "Ruled out: of 100 lesions of each kind of malignancy at most {limit} are missed",
}
_FOR_WHOM: Final = {
    "subgroup": "for people with the declared skin tone",
    "global": "over all skin tones together, not for each of them",
}
_BASES: Final = {
    "split": "on lesions kept for calibration",
    "cross-fitted": (
        "on training lesions, each scored by a model not trained on it; exact for those models, nominal for "
        "the one that answered"
    ),
}

_BY_PREVALENCE: Final = {
    "urgent": "How many urgent lesions are malignant depends on how common malignancy is where this is used.",
    "ruled-out": (
        "How many lesions ruled out are malignant depends on how common malignancy is where this is used."
    ),
}


def headline(diagnosis: Diagnosis) -> str | None:
    """Who has to see the lesion; None without triage."""
    if diagnosis.triage is None or diagnosis.triage_evidence is None:
        return None
    missed = diagnosis.triage_evidence.missed
    worst = max((one.high for one in missed.kinds), default=missed.limit)
    return HEADLINES[diagnosis.triage].format(limit=_of_100(worst))


def shown(diagnosis: Diagnosis) -> list[str]:
    """What was shown of triage by kind, for whom and on what; what decided the level comes first."""
    evidence = diagnosis.triage_evidence
    if evidence is None:
        return []
    if evidence.guarantee == "none":
        return ["Nothing was shown of this triage: the version was not calibrated for such a lesion."]
    urgent, missed = _false_alarms(evidence), _missed(evidence)
    return [
        *(urgent + missed if diagnosis.triage == "urgent" else missed + urgent),
        *_predictive(diagnosis.triage, evidence),
        f"Shown {_FOR_WHOM[evidence.guarantee]}, {_BASES[evidence.basis]}; each limit holds with "
        f"{100 * evidence.confidence:g} % confidence.",
    ]


def _predictive(level: Level | None, evidence: TriageEvidence) -> list[str]:
    """Predictive values where the prevalence was stated, else that they depend on it."""
    if evidence.predictive is not None:
        return [evidence.predictive.words]
    return [said for name, said in _BY_PREVALENCE.items() if name == level]


def _missed(evidence: TriageEvidence) -> list[str]:
    """A sentence for each kind; none where nothing can be ruled out."""
    kinds, limit = evidence.missed.kinds, evidence.missed.limit
    if any(one.high > limit for one in kinds):
        return []
    return [
        f"{one.kind[:1].upper()}{one.kind[1:]}: at most {_of_100(one.high)} of 100 are ruled out "
        f"({one.missed} of {one.n} were)."
        for one in kinds
    ]


def _false_alarms(evidence: TriageEvidence) -> list[str]:
    """A sentence; none where nothing can be urgent."""
    seen = evidence.false_alarms
    if seen.high > seen.limit:
        return []
    return [f"Not malignant: at most {_of_100(seen.high)} of 100 are urgent ({seen.seen} of {seen.n} were)."]


def _of_100(share: float) -> int:
    """An upper limit as a number of 100, never below it."""
    return ceil(round(100 * share, 6))
