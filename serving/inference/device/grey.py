"""What a model is warmed up with: a grey picture, and of a model of cases a whole case."""

import numpy as np

from registry.bundle.cases.given import read_given
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.question import Question


def grey_questions(manifest: BundleManifest) -> list[Question]:
    """A grey picture; for a model of cases also a case with every fact and each kind of picture it takes."""
    grey = np.full((1, manifest.picture.size, manifest.picture.size, 3), 128, dtype=np.uint8)
    if manifest.case is None:
        return [Question(grey)]
    case = manifest.case
    kinds = case.kinds[: case.slots] or (None,)
    facts = {fact.name: fact.write(fact.low if fact.kind == "number" else 0.0) or "" for fact in case.facts}
    whole = Question(np.repeat(grey, len(kinds), axis=0), read_given(case, kinds, facts))
    return [Question(grey, read_given(case, [None], {})), whole]
