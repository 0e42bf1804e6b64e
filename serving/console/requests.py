"""What the page sends: an action with the key that shall sign it, and then with what it signed."""

import base64
import binascii
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from serving.console.actions import Action
from serving.protocol.problems import InvalidParameter, MalformedRequest

LARGEST = 256 * 1024
"""Bytes of a request; one of an action with a hundred versions is a tenth of it."""


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(value if isinstance(value, str) else "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("it is no base64") from error


def _not_empty(value: bytes) -> bytes:
    if not value:
        raise ValueError("it is no base64, or is empty")
    return value


Base64 = Annotated[bytes, BeforeValidator(_decoded), AfterValidator(_not_empty)]


class Sent(BaseModel):
    """A part of what the page sends."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Prepare(Sent):
    """Asks what is to be signed.

    Attributes:
        action: what shall be done.
        fingerprint: of the public half of the key that shall sign it.
    """

    action: Action
    fingerprint: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


Kind = TypeVar("Kind", bound=Prepare)


class Signed(Sent):
    """One statement, and the signature that the browser made: both halves of it, one after the other.

    Attributes:
        statement: byte by byte as it was prepared.
        signature: r and s, each as long as the curve's numbers, as WebCrypto gives them.
    """

    statement: Base64
    signature: Base64


class Act(Prepare):
    """Asks to do it.

    Attributes:
        signed: every statement that was prepared.
    """

    signed: Annotated[tuple[Signed, ...], Field(min_length=1, max_length=200)]


def read_request(kind: type[Kind], body: bytes) -> Kind:
    """Reads what the page sent.

    Raises:
        MalformedRequest: it is no JSON.
        InvalidParameter: something in it cannot be what it is; the text names it.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise MalformedRequest("the body is no JSON; send what the console's page sends") from error
        where = ".".join(str(step) for step in first["loc"]) or "the body"
        raise InvalidParameter(f"`{where}` cannot be what it is: {first['msg']}") from error
