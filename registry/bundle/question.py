"""What a model is shown of one lesion, and asking a graph about several at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases.case_input import EMPTY, CaseInput
from registry.bundle.cases.given import GivenCase
from registry.bundle.cases.kinds import Kind
from registry.bundle.model_file.graph import Graph, Outputs
from registry.bundle.pictures.dicom import is_dermoscopic


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Question:
    """What a model is shown of one lesion.

    Attributes:
        images: its pictures as the model sees them, `(pictures, size, size, 3)` uint8 RGB.
        given: what is given beside them; None for a model of single pictures, which is shown one.
        with_map: whether it is asked where in the pictures the answer comes from, too.
    """

    images: NDArray[np.uint8]
    given: GivenCase | None = None
    with_map: bool = False


def kinds_of(
    pictures: Sequence[bytes], kinds: Sequence[Kind | None], case: CaseInput | None
) -> list[Kind | None]:
    """Of what kind each picture is: as was said, or as a DICOM file says of itself.

    Args:
        pictures: the bytes of each.
        kinds: as was said, None where nobody did.
        case: what the model takes; None for a model of single pictures, which is not told.

    Raises:
        ValueError: a DICOM file contradicts what was said.
    """
    if case is None or "dermoscopic" not in case.kinds:
        return list(kinds)
    found: list[Kind | None] = []
    for number, (content, kind) in enumerate(zip(pictures, kinds, strict=True), start=1):
        dermoscopic = is_dermoscopic(content)
        if dermoscopic and kind not in (None, "dermoscopic"):
            raise ValueError(
                f"picture {number} was given as {kind}, and the DICOM file says that it is dermoscopic; give "
                "it as what it is"
            )
        found.append("dermoscopic" if dermoscopic else kind)
    return found


def ask(graph: Graph, questions: Sequence[Question]) -> Outputs:
    """Runs a graph on questions to one model, all at once; the outputs are in their order.

    Cases get as many slots as the one with most pictures has: an empty slot costs as much as a picture. The
    outputs have a map where one of the questions asks for it, and the graph has one.

    Raises:
        GraphError: a question is not what the graph takes, or an answer is not finite.
    """
    given = [one.given for one in questions if one.given is not None]
    asked = {"with_map": True} if any(one.with_map for one in questions) else {}
    if not given:
        return graph.run(np.concatenate([one.images for one in questions]), **asked)
    slots = max(len(one.images) for one in questions)
    images = np.zeros((len(questions), slots, *questions[0].images.shape[1:]), dtype=np.uint8)
    kinds = np.full((len(questions), slots), EMPTY, dtype=np.int64)
    for row, (question, case) in enumerate(zip(questions, given, strict=True)):
        images[row, : len(question.images)] = question.images
        kinds[row, : len(case.kinds)] = case.kinds
    context = np.stack([case.context for case in given])
    return graph.run_cases(images, kinds, context, **asked)
