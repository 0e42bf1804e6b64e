import json

import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.labels import Label
from registry.bundle.metrics.summary import FEWEST, intersections, summarise

MALIGNANT = np.array([True, False])
LABELS = [
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
]


@pytest.fixture
def blocks(predictions):
    """Dark: 90 pictures, of which the first 40 are women's; light: 50, of which 20 are."""
    made = {}
    for name, n, women in (("dark", 90, 40), ("light", 50, 20)):
        first = np.arange(n) < women
        parts = {("sex", "female"): first, ("sex", "male"): ~first, ("age", "under 40"): first}
        made[name] = count(*predictions(n, n, 2), malignant=MALIGNANT, parts=parts)
    return made


def told(blocks, known):
    return intersections(blocks, ["dark", "light", "absent"], MALIGNANT, known)


def test_figures_are_those_of_the_pictures_that_share_the_trait(blocks, predictions):
    probabilities, labels = predictions(90, 90, 2)
    answers = probabilities.argmax(axis=1)[:40]
    women = told(blocks, {"sex": ()})["sex"]["female"]["dark"]
    assert women["n"] == 40
    assert women["accuracy"] == pytest.approx((answers == labels[:40]).mean())
    assert women["malignant_sensitivity"] == pytest.approx((answers[labels[:40] == 0] == 0).mean())
    assert set(women["intervals"]) == {"accuracy", "balanced_accuracy", "malignant_sensitivity"}
    low, high = women["intervals"]["accuracy"]
    assert low < women["accuracy"] < high


def test_few_and_none_are_unknown(blocks):
    assert FEWEST == 30
    by_sex = told(blocks, {"sex": ()})["sex"]
    assert by_sex["female"]["light"] is None  # 20 pictures
    assert by_sex["male"]["light"]["n"] == 30
    assert by_sex["male"]["absent"] is None


def test_a_summary_tells_them_where_they_were_asked_for(blocks):
    assert "intersections" not in summarise(blocks, LABELS, ["dark", "light"])
    summary = summarise(blocks, LABELS, ["dark", "light"], traits={"sex": ()})
    assert list(summary["intersections"]["sex"]["male"]) == ["dark", "light"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
