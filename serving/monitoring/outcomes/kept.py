"""What is kept of an answer: its version, whom it was for, and the ranges of its scores."""

from datetime import UTC, datetime

from registry.bundle.labels import GLOBAL
from registry.outcomes.store import UNKNOWN, Answering, KeptAnswer, Side
from serving.protocol.schemas import Diagnosis
from serving.releases.loading import LoadedRelease
from serving.releases.rollout import AnsweredPicture


def kept_answer(answered: AnsweredPicture, release: LoadedRelease, key: str | None) -> KeptAnswer:
    """What is kept of an answer.

    Args:
        answered: the answer.
        release: of the version that gave it. The subgroup of the declared tone is kept where it has a version
            there, or the one for everybody was tested on it; of any other tone nothing is.
        key: the id of the key that asked.
    """
    version, diagnosis = answered.loaded.version, answered.diagnosis
    named = {*release.subgroups, *(one.name for one in release.versions[GLOBAL].manifest.named_subgroups)}
    answering = Answering(
        version.model,
        version.number,
        version.subgroup.name,
        answered.subgroup if answered.subgroup in named else UNKNOWN,
        tuple((one.code, one.malignancy == "malignant") for one in answered.loaded.manifest.labels),
    )
    return KeptAnswer(
        diagnosis.id,
        datetime.now(UTC).date(),
        answering,
        key,
        _side(diagnosis),
        diagnosis.decision,
        diagnosis.findings[0].code,
        frozenset(diagnosis.prediction_set.codes),
        diagnosis.triage,
    )


def _side(diagnosis: Diagnosis) -> Side:
    """Of the working point; without one, whether the answer is malignant."""
    if diagnosis.malignancy.above is not None:
        return "above" if diagnosis.malignancy.above else "below"
    if diagnosis.malignancy.probability is None:
        return "none"
    return "above" if diagnosis.findings[0].malignancy == "malignant" else "below"
