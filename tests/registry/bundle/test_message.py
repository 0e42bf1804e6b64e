"""Sentences that keep their template and values, wherever a string goes."""

import copy
import json
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

import pytest
from pydantic import BaseModel

from registry.bundle.errors import NotAPicture
from registry.bundle.message import KEEPS_MESSAGES, Message, Number, Text, both, either

SAID = Message("Picture {number} ({kind}): {issue}", number=2, kind=Message("close-up"), issue="dark")


def test_a_message_is_its_english_sentence():
    assert SAID == "Picture 2 (close-up): dark"
    assert json.dumps([SAID]) == '["Picture 2 (close-up): dark"]'
    assert hash(SAID) == hash(str.__str__(SAID))
    assert f"{SAID}!" == "Picture 2 (close-up): dark!"


def test_without_values_braces_are_letters():
    assert Message("{ and }") == "{ and }"
    assert Message("it says {what}", what="{n}") == "it says {n}"


@pytest.mark.parametrize(("n", "said"), [(0, "0 lesions of 9"), (1, "1 lesion of 9"), (2, "2 lesions of 9")])
def test_what_counts_has_two_templates(n, said):
    assert Message.counted("{n} lesion of {all}", "{n} lesions of {all}", n, all=9) == said


def same(one, other):
    return (one, one.template, one.many, one.n, one.values) == (
        other,
        other.template,
        other.many,
        other.n,
        other.values,
    )


@pytest.mark.parametrize("message", [SAID, Message.counted("{n} lesion", "{n} lesions", 3), Message("plain")])
def test_copies_and_pickles_stay_messages(message):
    for copied in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert type(copied) is Message
        assert same(copied, message)
    assert type(pickle.loads(pickle.dumps(SAID)).values["kind"]) is Message


def refuse(message):
    raise NotAPicture(message)


def test_another_process_raises_them_whole():
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(NotAPicture) as raised,
    ):
        pool.submit(refuse, SAID).result(timeout=60)
    assert same(str(raised.value), SAID)


def test_an_exception_keeps_its_message():
    assert same(str(ValueError(SAID)), SAID)


def test_a_field_keeps_messages_and_describes_itself_as_text():
    class Told(BaseModel):
        one: Text
        many: Annotated[list[str], KEEPS_MESSAGES]

    told = Told(one=SAID, many=[SAID, "plain"])
    assert same(told.one, SAID)
    assert same(told.many[0], SAID)
    assert type(told.many[1]) is str
    assert told.model_dump_json() == json.dumps({"one": SAID, "many": [SAID, "plain"]}, separators=(",", ":"))
    kinds = Told.model_json_schema()["properties"]
    assert (kinds["one"]["type"], kinds["many"]["items"]) == ("string", {"type": "string"})
    with pytest.raises(ValueError, match="string"):
        Told(one=3, many=[])


def test_choices_are_joined():
    assert either(["a", "b", "c"]) == "a or b or c"
    assert both([Message("close-up")]) == "close-up"
    assert both(["a", Number("1.5")]) == "a and 1.5"
