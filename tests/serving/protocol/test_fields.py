import pytest
from pydantic import ValidationError

from serving.protocol.fields import example
from serving.protocol.schemas import Conclusion, Diagnosis, MalignancyRisk, Quality


def test_an_example_is_that_of_its_fields_except_for_what_is_given():
    made = example(Diagnosis, decision="report", conclusion={"n": 7}, malignancy={"probability": None})
    assert (made.decision, made.malignancy) == ("report", example(MalignancyRisk, probability=None))
    assert made.conclusion == example(Conclusion, n=7) != example(Conclusion)
    assert made.quality == example(Quality)
    assert made.id == example(Diagnosis).id


@pytest.mark.parametrize("given", [{"heatmap": 1}, {"quality": {"heatmap": 1}}], ids=["whole", "part"])
def test_an_example_of_an_unknown_field_is_refused(given):
    with pytest.raises(ValidationError, match="heatmap"):
        example(Diagnosis, **given)
