"""Messages over a network: what goes in comes out, and what is none is refused."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.engines.wire import (
    read_payload,
    read_request,
    read_request_header,
    read_response,
    stamp_of,
    write_payload,
    write_request,
    write_response,
)
from training.errors import MessageError
from training.messages import Broadcast, Failure, Update, reply

QUESTION = Broadcast("north", "0-federate", 3, "fit", "dark", {"w": torch.ones(2)}, {"split": "test"})
STAMP = stamp_of(QUESTION, "sha256:job", "s", 7)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
names = st.text(min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)


def same(one, two):
    return one.keys() == two.keys() and all(
        one[name].dtype == two[name].dtype
        and one[name].shape == two[name].shape
        and torch.equal(one[name], two[name])
        for name in one
    )


@given(
    st.dictionaries(
        names, st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)), max_size=4
    )
)
def test_tensors_of_every_kind_survive(shapes):
    tensors = {name: torch.ones(shape).to(dtype) for name, (dtype, shape) in shapes.items()}
    assert same(read_payload(write_payload(tensors)), tensors)


@given(
    st.dictionaries(names, st.integers(0, 2**60)),
    st.dictionaries(names, numbers),
    st.dictionaries(names, numbers),
)
def test_an_answers_numbers_survive_to_the_last_digit(counts, losses, scalars):
    told = reply(QUESTION, tensors={"w": torch.randn(3)}, num_examples=counts, losses=losses, scalars=scalars)
    read = read_response(*write_response(told, STAMP), STAMP)
    assert isinstance(read, Update)
    assert read.address == QUESTION.address
    assert (dict(read.num_examples), dict(read.losses), dict(read.scalars)) == (counts, losses, scalars)
    assert same(dict(read.tensors), dict(told.tensors))


def test_a_question_survives_and_shared_or_turned_memory_is_no_matter():
    base = torch.arange(6.0)
    tensors = {"a": base, "b": base, "turned": base.reshape(2, 3).T}
    request = Broadcast("north", "0-federate", 3, "fit", "dark", tensors, {"split": "test"})
    header = read_request_header(write_request(request, STAMP, 2))
    read = read_request(header, write_payload(tensors))
    assert (header.kept, header.number, header.job) == (2, 7, "sha256:job")
    assert read.address == request.address
    assert dict(read.options) == {"split": "test"}
    assert same(dict(read.tensors), tensors)


def test_a_failure_is_an_answer():
    failure = Failure("north", "dark", "no disk")
    assert read_response(*write_response(failure, STAMP), STAMP) == failure


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", 6),
        ("session", "before"),
        ("job", "sha256:other"),
        ("client", "south"),
        ("round", 2),
        ("track", "global"),
    ],
)
def test_an_answer_to_another_question_is_dropped_and_named(field, value):
    header, body = write_response(reply(QUESTION), STAMP.model_copy(update={field: value}))
    with pytest.raises(MessageError, match=f"north answered another request: {field} {value!r}"):
        read_response(header, body, STAMP)


def test_what_is_no_message_is_refused():
    header, _ = write_response(reply(QUESTION), STAMP)
    with pytest.raises(MessageError, match="9 bytes arrived that are no tensors"):
        read_response(header, b"not bytes", STAMP)
    with pytest.raises(MessageError, match="header is not what it should be"):
        read_response("{", b"", STAMP)
    extra = json.dumps({**json.loads(header), "code": "import os"})
    with pytest.raises(MessageError, match="code"):
        read_response(extra, b"", STAMP)
