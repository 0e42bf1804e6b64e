"""Sentences from a worker: they keep their template, by which one that was taken over asks for nothing."""

import pytest

from registry.bundle.message import Message, Number
from serving.decoding.said import LONGEST, Said, Value


def test_a_message_stays_one():
    sent = Message("it has {tags} tags of {kind}", tags=Number("1,200"), kind=Message("a camera"))
    got = Said.model_validate_json(Said.of(sent).model_dump_json()).message()
    assert isinstance(got, Message)
    assert (got, got.template) == ("it has 1,200 tags of a camera", sent.template)
    assert [type(value) for value in got.values.values()] == [Number, Message]


def test_a_plain_text_stays_one_and_a_long_one_is_cut():
    assert Said.of("damaged {here}").message() == "damaged {here}"
    assert len(Said.of("x" * 2 * LONGEST).message()) == LONGEST
    counted = Message.counted("{n} piece", "{n} pieces", 3)
    assert Said.of(counted).message() == "3 pieces"


@pytest.mark.parametrize(
    "template",
    [
        "{x.__class__.__mro__}",
        "{x[0]}",
        "{x:>999999999}",
        "{x!r:>999999999}",
        "{}",
        "{0}",
        "{x",
        "{y}",
    ],
)
def test_a_template_that_asks_for_more_is_no_template(template):
    said = Said(text="what is wrong", template=template, values={"x": Value(text="1")})
    assert said.message() == "what is wrong"


def test_values_are_no_templates():
    hostile = Value(text="{x.__class__}", is_message=True)
    assert Said(text="", template="it is {x}", values={"x": hostile}).message() == "it is {x.__class__}"


def test_values_together_make_no_giant():
    values = {name: Value(text="x" * LONGEST) for name in "abc"}
    assert Said(text="short", template="{a}{b}{c}" * 100, values=values).message() == "short"
