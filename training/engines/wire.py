"""Messages as they cross a network: a JSON header, and tensors as safetensors bytes.

Nothing is unpickled. Each message carries the job, the session in which it was sent, and a number: an answer
must share these with its request, so that one of another job, another session or an earlier request is
recognised and dropped. A payload is bytes, or a file where the tensors are many.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load

from training.config import FrozenConfig
from training.errors import MessageError, public
from training.files import PlainName
from training.messages import GLOBAL, Answer, Broadcast, Failure, Tensors, Update, tensor_bytes
from training.tensor_file import Spool, SpooledTensors, map_tensors, pack_tensors

Payload = bytes | Path
GONE = "this message is here no longer: another has taken its place"
CHUNK_BYTES = 4 << 20  # bytes of tensors that stay in memory and travel in one call; more wait in a file


def write_payload(tensors: Tensors) -> bytes:
    """Tensors as safetensors bytes; nothing where there are none."""
    return pack_tensors(tensors) if tensors else b""


def write_long_payload(tensors: Tensors, spool: Spool) -> Payload:
    """Tensors as safetensors bytes, in a file of the spool where they are more than `CHUNK_BYTES` bytes.

    Raises:
        CheckpointError: the disk does not take them.
    """
    return write_payload(tensors) if tensor_bytes(tensors) <= CHUNK_BYTES else spool.write(tensors)


def read_payload(payload: Payload) -> Tensors:
    """Tensors from safetensors bytes; those of a file are read when they are used.

    Raises:
        MessageError: when they are none.
    """
    try:
        if isinstance(payload, Path):
            map_tensors(payload)  # so that what is wrong with it is reported here
            return SpooledTensors(payload)
        tensors: Tensors = load(payload) if payload else {}
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise MessageError(f"{size_of(payload):,} bytes arrived that are no tensors: {error}") from error
    return tensors


def size_of(payload: Payload) -> int:
    """The size of a payload in bytes.

    Raises:
        MessageError: its file is gone, since another has taken its place.
    """
    if isinstance(payload, bytes):
        return len(payload)
    try:
        return payload.stat().st_size
    except FileNotFoundError as error:
        raise MessageError(GONE) from error


def part_of(payload: Payload, offset: int, length: int) -> bytes:
    """At most `length` bytes of a payload from `offset` on; raises like `size_of`."""
    if isinstance(payload, bytes):
        return payload[offset : offset + length]
    try:
        with payload.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError as error:
        raise MessageError(GONE) from error


PROTOCOL = 1  # raised whenever what crosses changes its meaning
Header = TypeVar("Header", bound="Stamp")


class Stamp(FrozenConfig):
    """What a request and its answer share.

    Attributes:
        job: the job's digest.
        session: one stay of the coordinator in a job; another begins when it was stopped and returns.
        number: of the request, rising at each client.
        client, stage, round, ask, track: see `training.messages.Message`; a track is a subgroup's
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


class RequestHeader(Stamp):
    """A request's header.

    Attributes:
        kept: the last round of the stage whose training the coordinator knows of; what the client kept of
            later ones is of answers that never arrived, and forgotten.
        options: see `training.messages.Broadcast`.
    """

    kept: int = Field(ge=0)
    options: Mapping[str, Any] = {}


class ResponseHeader(Stamp):
    """An answer's header; where `failure` says why, there is nothing else.

    Attributes:
        failure: why there is no answer.
        num_examples, losses, scalars: see `training.messages.Update`.
    """

    failure: str | None = None
    num_examples: Mapping[str, int] = {}
    losses: Mapping[str, float] = {}
    scalars: Mapping[str, float] = {}


def stamp_of(broadcast: Broadcast, job: str, session: str, number: int) -> Stamp:
    """The stamp of a request."""
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


def write_request(broadcast: Broadcast, stamp: Stamp, kept: int) -> str:
    """A request's header; its tensors are sent separately, see `training.engines.wire`."""
    return json.dumps({**stamp.model_dump(), "kept": kept, "options": dict(broadcast.options)})


def number_of(header: str) -> tuple[str, int]:
    """A request's session and number.

    Raises:
        MessageError: when it is none.
    """
    read = _read_header(RequestHeader, header)
    return read.session, read.number


def read_request_header(header: str) -> RequestHeader:
    """The header of a request that arrived.

    Raises:
        MessageError: when it is none.
    """
    return _read_header(RequestHeader, header)


def read_request(header: RequestHeader, payload: Payload) -> Broadcast:
    """A request that arrived, with all its tensors.

    Raises:
        MessageError: when they are none.
    """
    tensors = dict(read_payload(payload).items())
    return Broadcast(
        header.client, header.stage, header.round, header.ask, header.track, tensors, header.options
    )


def write_response(
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


def read_response_header(header: str, stamp: Stamp) -> ResponseHeader:
    """The header of the answer to the request with this stamp.

    Raises:
        MessageError: when it is none, or answers another request.
    """
    read = _read_header(ResponseHeader, header)
    for name in Stamp.model_fields:
        if getattr(read, name) != getattr(stamp, name):
            raise MessageError(
                f"{stamp.client} answered another request: {name} {getattr(read, name)!r}; "
                f"asked was {getattr(stamp, name)!r}. The answer is dropped"
            )
    return read


def read_response(header: str, payload: Payload, stamp: Stamp) -> Answer:
    """The answer to the request with this stamp; raises like `read_response_header`."""
    read = read_response_header(header, stamp)
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
        raise public(
            MessageError(
                f"a message's header is not what it should be: {where}: {problem['msg']}; "
                "do the coordinator and this site run the same version of dermfed?"
            )
        ) from error
