"""What is sent: one picture as it is, with its parameters in the query; or a case, as a form."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx

from clients.api.errors import InvalidInput, NotAPicture, UnreadablePicture

Image = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO

Value = str | int | float | None

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SHOWN = 100  # characters of a wrong path that a message repeats


@dataclass(frozen=True)
class Call:
    """One request, without the service's address.

    Attributes:
        method: of HTTP.
        path: relative to the service's URL.
        params: what goes into the query.
        headers: besides those of every request.
        content: the body.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)


def diagnosis_call(
    image: Image | None,
    parameters: Mapping[str, Value],
    kinds: Mapping[str, Image | None] = MappingProxyType({}),
    facts: Mapping[str, Value] = MappingProxyType({}),
) -> Call:
    """Ask about one lesion. No picture's file name is part of what is sent.

    One picture is the body, with its parameters in the query. More, or facts, are a form: what is known of a
    patient is in no address.

    Args:
        image: the picture's bytes, a path on disk, or an open binary file.
        parameters: those that are None are left out.
        kinds: pictures by the field that says of what kind each is; those that are None are left out.
        facts: by name; those that are None are left out.

    Raises:
        UnreadablePicture: a file cannot be read.
        NotAPicture: no JPEG, PNG, WebP or DICOM by its first bytes.
        InvalidInput: a fact has the name of a parameter.
    """
    given = {name: str(value) for name, value in parameters.items() if value is not None}
    known = {name: str(value) for name, value in facts.items() if value is not None}
    pictures = {name: one for name, one in {"image": image, **kinds}.items() if one is not None}
    if not pictures:
        raise NotAPicture(f"there is no picture; give one of {', '.join(('image', *kinds))}")
    if reserved := sorted(set(known) & {*parameters, "image", *kinds}):
        raise InvalidInput(f"{', '.join(reserved)} is no fact; give it as an argument of its own")
    contents = {name: read_picture(one) for name, one in pictures.items()}
    if list(contents) == ["image"] and not known:
        content = contents["image"]
        return Call("POST", "/v1/diagnoses", given, {"Content-Type": media_type(content)}, content)
    files = {name: ("picture", content, media_type(content)) for name, content in contents.items()}
    form = httpx.Request("POST", "http://form", data={**given, **known}, files=files)
    content_type = {"Content-Type": form.headers["Content-Type"]}
    return Call("POST", "/v1/diagnoses", headers=content_type, content=form.read())


def models_call() -> Call:
    """Ask for all models."""
    return Call("GET", "/v1/models")


def card_call(name: str) -> Call:
    """Ask for one model's card.

    Raises:
        InvalidInput: no name that a URL can hold.
    """
    if not name.strip("."):
        raise InvalidInput(f"a model cannot be called {name!r}; models() lists the names")
    return Call("GET", f"/v1/models/{quote(name, safe='')}/card")


def ready_call() -> Call:
    """Ask whether the service can answer."""
    return Call("GET", "/readyz")


def media_type(content: bytes) -> str:
    """The picture's media type, detected from its first bytes.

    Raises:
        NotAPicture: no JPEG, PNG, WebP or DICOM.
    """
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    if content[128:132] == b"DICM":
        return "application/dicom"
    what = f"begins with {bytes(content[:8])!r}" if content else "is empty"
    raise NotAPicture(f"the picture {what}: no JPEG, PNG or WebP; convert it to one of these")


def read_picture(image: Image) -> bytes:
    """All bytes of a picture, wherever it is given.

    Raises:
        UnreadablePicture: the file cannot be read.
        NotAPicture: a URL, or something that holds no bytes.
    """
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image)
    if isinstance(image, str) and _URL.match(image):
        raise NotAPicture(
            f"{image[:_SHOWN]!r} is a URL; a text is always a path on disk. Fetch the picture yourself and "
            "give its bytes"
        )
    if isinstance(image, str | os.PathLike):
        try:
            return Path(image).read_bytes()
        except (OSError, ValueError) as error:  # a ValueError for a path that holds a null character
            reason = getattr(error, "strerror", None) or error
            raise UnreadablePicture(
                f"{os.fspath(image)[:_SHOWN]!r} cannot be read ({reason}); name a picture file"
            ) from error
    return _read_file(image)


def _read_file(image: Any) -> bytes:
    read = getattr(image, "read", None)
    if read is None:
        raise NotAPicture(
            f"the picture is of the type {type(image).__name__}; give its bytes, a path or an open file"
        )
    try:
        content = read()
    except (OSError, ValueError) as error:  # a ValueError for a closed file or text that does not decode
        raise UnreadablePicture(f"the open file cannot be read ({error})") from error
    if not isinstance(content, bytes):
        raise NotAPicture(f"the open file gives {type(content).__name__}; open it in binary mode ('rb')")
    return content
