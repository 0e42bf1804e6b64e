"""What is kept of an answer: its version, whom it was for, and the ranges of its scores."""

from datetime import UTC, datetime

from registry.bundle.manifest.schema import UNDECLARED, BundleManifest
from registry.outcomes.answer import UNKNOWN, Answering, KeptAnswer, Side, cell_of
from serving.inference.predictor import LoadedVersion
from serving.protocol.schemas import Diagnosis


def kept_answer(
    loaded: LoadedVersion,
    tested: frozenset[str],
    subgroup: str,
    pattern: str,
    diagnosis: Diagnosis,
    key: str | None,
) -> KeptAnswer:
    """What is kept of a diagnosis.

    Args:
        loaded: the version that answered.
        tested: names of subgroups; of any other the declared tone is not kept.
        subgroup: that of the declared tone.
        pattern: of the case; empty for a model of single pictures.
        diagnosis: the answer.
        key: the id of the key that asked.
    """
    version = loaded.version
    known = subgroup in tested and subgroup != UNDECLARED
    labels = tuple((one.code, one.malignancy == "malignant") for one in loaded.manifest.labels)
    first = diagnosis.findings[0]
    answering = Answering(
        version.model,
        version.number,
        version.subgroup.name,
        subgroup if known else UNKNOWN,
        pattern,
        labels,
    )
    return KeptAnswer(
        diagnosis.id,
        datetime.now(UTC).date(),
        answering,
        key,
        cell_of(_side(diagnosis, loaded.manifest), diagnosis.decision, diagnosis.malignancy.probability),
        first.code,
        frozenset(diagnosis.prediction_set.codes),
    )


def _side(diagnosis: Diagnosis, manifest: BundleManifest) -> Side:
    """Of the working point; without one, whether the answer is malignant."""
    if diagnosis.malignancy.above is not None:
        return "above" if diagnosis.malignancy.above else "below"
    if diagnosis.malignancy.probability is None:
        return "none"
    return "above" if diagnosis.findings[0].malignancy == "malignant" else "below"
