from typing import Annotated

import pytest
from pydantic import BaseModel, ValidationError

from serving.http.openapi import describe
from serving.protocol.fields import Fact, example, facts, part_of
from serving.protocol.schemas import Conclusion, Diagnosis, MalignancyRisk, Reason
from serving.settings import ServeSettings


def parts(model):
    yield model
    for field in model.model_fields.values():
        if part := part_of(field.annotation):
            yield from parts(part)


def test_every_field_of_a_diagnosis_says_what_it_means_and_how_it_looks():
    for part in parts(Diagnosis):
        shown = example(part).model_dump()
        for name, field, fact in facts(part):
            assert fact.meaning, f"{part.__name__}.{name}"
            assert name in shown or field.exclude_if  # what only the answer to a case has


def test_a_field_that_says_nothing_is_named():
    class Mute(BaseModel):
        told: Annotated[int, Fact("a number", 1)]
        silent: int

    with pytest.raises(TypeError, match=r"Mute\.silent does not say what it means"):
        facts(Mute)


def test_an_example_is_of_its_fields_but_for_what_is_given():
    made = example(Diagnosis, decision="report", conclusion={"n": 7}, malignancy={"probability": None})
    assert (made.decision, made.malignancy) == ("report", example(MalignancyRisk, probability=None))
    assert made.conclusion == example(Conclusion, n=7) != example(Conclusion)
    assert made.reasons == [example(Reason)]
    assert made.id == example(Diagnosis).id


def test_an_example_of_a_field_that_is_not_there_is_refused():
    with pytest.raises(ValidationError, match="heatmap"):
        example(Diagnosis, heatmap=1)
    with pytest.raises(ValidationError, match="heatmap"):
        example(Diagnosis, quality={"heatmap": 1})


def test_what_a_fact_says_is_not_in_the_schema():
    """The description of the interface is for types; what they mean is in the docs."""
    properties = describe(ServeSettings())["components"]["schemas"]["Quality"]["properties"]
    assert properties["acceptable"] == {"title": "Acceptable", "type": "boolean"}
