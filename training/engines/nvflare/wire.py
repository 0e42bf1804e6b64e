"""Messages as they cross a network: a JSON header, and tensors as safetensors bytes.

Nothing is unpickled. Each message carries the job, the session in which it was sent, and a number: an answer
must share these with its question, so that one of another job, another session or an earlier question is
recognised and dropped.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from training.config import FrozenConfig
from training.engines.nvflare.payload import Payload, read_payload, write_payload
from training.errors import MessageError, tell
from training.files import PlainName
from training.messages.message import GLOBAL, Answer, Broadcast, Failure, Tensors, Update

PROTOCOL = 1  # raised whenever what crosses changes its meaning
Header = TypeVar("Header", bound="Stamp")


class Stamp(FrozenConfig):
    """What a question and its answer share.

    Attributes:
        job: the job's digest.
        session: one stay of the coordinator in a job; another begins when it was stopped and returns.
        number: of the question, rising at each client.
        client, stage, round, ask, track: see `training.messages.message.Message`; a track is a subgroup's
            name and may be anything, so that nothing is ever kept under it as it is.
    """

    job: str
    session: PlainName
    number: int = Field(ge=0)
    client: PlainName
    stage: PlainName
    round: int = Field(ge=0)
    ask: PlainName
    track: str = GLOBAL


class QuestionHeader(Stamp):
    """A question's header.

    Attributes:
        kept: the last round of the stage whose training the coordinator knows of; what the client kept of
            later ones is of answers that never arrived, and forgotten.
        options: see `training.messages.message.Broadcast`.
    """

    kept: int = Field(ge=0)
    options: Mapping[str, Any] = {}


class AnswerHeader(Stamp):
    """An answer's header; where `failure` says why, there is nothing else.

    Attributes:
        failure: why there is no answer.
        num_examples, losses, scalars: see `training.messages.message.Update`.
    """

    failure: str | None = None
    num_examples: Mapping[str, int] = {}
    losses: Mapping[str, float] = {}
    scalars: Mapping[str, float] = {}


def stamp_of(broadcast: Broadcast, job: str, session: str, number: int) -> Stamp:
    """The stamp of a question."""
    client, stage, round_, ask, track = broadcast.address
    return Stamp(
        job=job,
        session=session,
        number=number,
        client=client,
        stage=stage,
        round=round_,
        ask=ask,
        track=track,
    )


def write_question(broadcast: Broadcast, stamp: Stamp, kept: int) -> str:
    """A question's header; its tensors travel beside it, see `training.engines.nvflare.payload`."""
    return json.dumps({**stamp.model_dump(), "kept": kept, "options": dict(broadcast.options)})


def number_of(header: str) -> tuple[str, int]:
    """A question's session and number.

    Raises:
        MessageError: when it is none.
    """
    read = _read_header(QuestionHeader, header)
    return read.session, read.number


def read_question_header(header: str) -> QuestionHeader:
    """The header of a question that arrived.

    Raises:
        MessageError: when it is none.
    """
    return _read_header(QuestionHeader, header)


def read_question(header: QuestionHeader, payload: Payload) -> Broadcast:
    """A question that arrived, with all its tensors.

    Raises:
        MessageError: when they are none.
    """
    tensors = dict(read_payload(payload).items())
    return Broadcast(
        header.client, header.stage, header.round, header.ask, header.track, tensors, header.options
    )


def write_answer(
    answer: Answer, stamp: Stamp, write: Callable[[Tensors], Payload] = write_payload
) -> tuple[str, Payload]:
    """An answer's header and payload, which `write` writes."""
    head = {name: getattr(stamp, name) for name in Stamp.model_fields}
    if isinstance(answer, Failure):
        return json.dumps({**head, "failure": answer.reason}), b""
    metrics: dict[str, Mapping[str, float]] = {
        "num_examples": answer.num_examples,
        "losses": answer.losses,
        "scalars": answer.scalars,
    }
    header = json.dumps({**head, **{name: dict(values) for name, values in metrics.items()}})
    return header, write(answer.tensors)


def read_answer_header(header: str, stamp: Stamp) -> AnswerHeader:
    """The header of the answer to the question with this stamp.

    Raises:
        MessageError: when it is none, or answers another question.
    """
    read = _read_header(AnswerHeader, header)
    for name in Stamp.model_fields:
        if getattr(read, name) != getattr(stamp, name):
            raise MessageError(
                f"{stamp.client} answered another question: {name} {getattr(read, name)!r}; "
                f"asked was {getattr(stamp, name)!r}. The answer is dropped"
            )
    return read


def read_answer(header: str, payload: Payload, stamp: Stamp) -> Answer:
    """The answer to the question with this stamp; raises like `read_answer_header`."""
    read = read_answer_header(header, stamp)
    if read.failure is not None:
        return Failure(stamp.client, stamp.track, read.failure)
    return Update(
        stamp.client,
        stamp.stage,
        stamp.round,
        stamp.ask,
        stamp.track,
        read_payload(payload),
        read.num_examples,
        read.losses,
        read.scalars,
    )


def _read_header(kind: type[Header], text: str) -> Header:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise tell(
            MessageError(
                f"a message's header is not what it should be: {where}: {problem['msg']}; "
                "do the coordinator and this site run the same version of dermfed?"
            )
        ) from error
