from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from serving.http.openapi import describe
from serving.protocol.fields import example, facts, part_of
from serving.protocol.schemas import Conclusion, Diagnosis, MalignancyRisk, Quality
from serving.settings import ServeSettings


def parts(model):
    yield model
    for field in model.model_fields.values():
        if part := part_of(field.annotation):
            yield from parts(part)


def test_every_field_of_a_diagnosis_says_what_it_means_and_how_it_looks():
    for part in parts(Diagnosis):
        shown = example(part).model_dump()
        for name, field, _ in facts(part):
            assert name in shown or field.exclude_if  # what only the answer to a case has


def test_a_field_that_says_nothing_is_named():
    class Mute(BaseModel):
        told: Annotated[int, Field(description="a number", examples=[1])]
        silent: int

    with pytest.raises(TypeError, match=r"Mute\.silent does not say what it means"):
        facts(Mute)


def test_an_example_is_of_its_fields_but_for_what_is_given():
    made = example(Diagnosis, decision="report", conclusion={"n": 7}, malignancy={"probability": None})
    assert (made.decision, made.malignancy) == ("report", example(MalignancyRisk, probability=None))
    assert made.conclusion == example(Conclusion, n=7) != example(Conclusion)
    assert made.quality == example(Quality)
    assert made.id == example(Diagnosis).id


def test_an_example_of_a_field_that_is_not_there_is_refused():
    with pytest.raises(ValidationError, match="heatmap"):
        example(Diagnosis, heatmap=1)
    with pytest.raises(ValidationError, match="heatmap"):
        example(Diagnosis, quality={"heatmap": 1})


def test_what_a_field_means_and_an_example_are_in_the_description():
    properties = describe(ServeSettings())["components"]["schemas"]["Quality"]["properties"]
    assert properties["acceptable"] == {
        **{"title": "Acceptable", "type": "boolean", "examples": [True]},
        "description": "where it is false, the decision is `retake`",
    }
