"""What stands at the head of an answer: triage, the decision, what was found, and what it does not mean.

`report` says that the model is sure, and not that the lesion is harmless. So a reported malignancy is said
first and looks like a referral, and nothing at all looks like an all-clear.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from serving.protocol.schemas import Diagnosis
from serving.protocol.triage import headline, shown
from serving.web.numbers import percent

_TITLES: Final[Mapping[str, str]] = {
    "report": "Report",
    "refer": "Refer",
    "retake": "Take another picture",
}
_SENTENCES: Final[Mapping[str, str]] = {
    "report": "The model is confident enough for this answer to be reported to a clinician.",
    "refer": "The model is not sure enough. A clinician has to see the lesion.",
    "retake": "This picture cannot be judged.",
}
_NO_DIAGNOSIS: Final = "The model is not sure enough of a diagnosis."
_NO_ALL_CLEAR: Final = "This is no all-clear: the model can be wrong. A clinician has to judge the lesion."
_SAYS_NOTHING: Final = "A referral says nothing about how dangerous the lesion is."

SERIOUS: Final = ("malignant", "premalignant")
"""The kinds of disease for which a report looks like a referral."""


@dataclass(frozen=True)
class Verdict:
    """The head of an answer.

    Attributes:
        triage: who has to see the lesion; None without triage.
        shown: what triage rests on, a sentence each.
        title: the decision, in a word or two.
        found: the disease that is reported, and how likely it is; None where none is.
        sentence: what the decision means.
        caution: what it does not mean; None where it cannot be misread.
        look: of which decision it has the look: what is ruled out looks like a report.
        serious: whether the lesion is urgent, or the answer reports, or leaves open, a disease that must
            not be overlooked.
    """

    triage: str | None
    shown: list[str]
    title: str
    found: str | None
    sentence: str
    caution: str | None
    look: str
    serious: bool


def verdict(diagnosis: Diagnosis) -> Verdict:
    """The head of an answer."""
    decision = diagnosis.decision
    triaged = diagnosis.triage is not None
    return Verdict(
        triage=headline(diagnosis),
        shown=shown(diagnosis),
        title=_TITLES[decision],
        found=_found(diagnosis) if decision == "report" else None,
        sentence=_NO_DIAGNOSIS if triaged and decision == "refer" else _SENTENCES[decision],
        caution=_caution(diagnosis),
        look="report" if diagnosis.triage == "ruled-out" else decision,
        serious=diagnosis.triage == "urgent" or (decision == "report" and _is_serious(diagnosis)),
    )


def _found(diagnosis: Diagnosis) -> str | None:
    if (sure := diagnosis.conclusion) is not None:
        return f"{sure.name[:1].upper()}{sure.name[1:]}, {percent(sure.probability)}"
    if not diagnosis.findings:
        return None
    first = diagnosis.findings[0]
    return f"Most likely: {first.name} ({first.malignancy}), {percent(first.probability)}"


def _is_serious(diagnosis: Diagnosis) -> bool:
    if diagnosis.conclusion is not None and diagnosis.conclusion.malignant:
        return True
    left_open = set(diagnosis.prediction_set.codes)
    first = diagnosis.findings[:1]
    return bool(diagnosis.malignancy.above) or any(
        one.malignancy in SERIOUS for one in diagnosis.findings if one in first or one.code in left_open
    )


def _caution(diagnosis: Diagnosis) -> str | None:
    if diagnosis.decision == "refer" and diagnosis.triage is None:
        return _SAYS_NOTHING
    if diagnosis.decision == "retake" or diagnosis.triage == "urgent":
        return None
    if diagnosis.decision == "refer":
        return _NO_ALL_CLEAR if diagnosis.triage == "ruled-out" else None
    if diagnosis.malignancy.above:
        return "The probability of malignancy reaches the working point: the lesion is suspicious."
    if diagnosis.conclusion is not None and diagnosis.conclusion.malignant:
        return "A malignant disease is concluded. A clinician has to see the lesion."
    if diagnosis.findings and diagnosis.findings[0].malignancy == "malignant":
        return "A malignant disease is reported. A clinician has to see the lesion."
    if diagnosis.findings and diagnosis.findings[0].malignancy == "premalignant":
        return "A premalignant disease is reported. A clinician has to see the lesion."
    if _is_serious(diagnosis):
        return "A malignant or premalignant disease is possible. A clinician has to judge the lesion."
    return _NO_ALL_CLEAR
