from typing import Annotated

import pytest
from pydantic import Field

from serving.protocol.fields import PROBABILITY, Fact, Figure, Unit, example
from serving.protocol.schemas import Answer, Diagnosis, MalignancyRisk
from serving.web.answer import Row, figures


def test_a_working_point_has_rows_of_its_own_where_there_is_one():
    with_one = figures(example(Diagnosis))
    assert with_one[:4] == [
        Row("Malignant", "71 %", "probability, all malignant classes together"),
        Row("Suspicious", "20 %", "or more: the working point"),
        Row("Malignant ones found", "94 %", "of 117 malignant test pictures, at the working point"),
        Row("Others not suspicious", "61 %", "of the other test pictures, at the working point"),
    ]
    without = figures(example(Diagnosis, malignancy=MalignancyRisk(probability=0.71)))
    assert without == [with_one[0], *with_one[4:]]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0004, PROBABILITY, "under 0.1 %"),
        (None, PROBABILITY, "not known"),
        (None, None, "not known"),
        (True, None, "yes"),
        (False, None, "no"),
        (12, None, "12"),
        (0.25, Unit("mm", "mm"), "0.25 mm"),
        (7, Unit("days", "d"), "7 days"),
        ("dermoscope", None, "dermoscope"),
    ],
)
def test_a_value_is_told_by_its_type_and_unit(value, unit, text):
    class Part(Answer):
        shown: Annotated[
            float | int | bool | str | None,
            Field(description="a value"),
            Fact(unit=unit, page=Figure("Shown", "is {shown}")),
        ]
        kept: Annotated[int, Field(description="not shown")] = 1

    class Whole(Diagnosis):
        extra: Annotated[Part, Field(description="a part")]

    made = example(Whole, extra=Part(shown=value))
    assert figures(made)[-1] == Row("Shown", text, f"is {text}")
    assert len(figures(made)) == len(figures(example(Diagnosis))) + 1
