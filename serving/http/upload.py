"""Reading uploaded pictures and form fields, in memory alone and never more than allowed.

The body is a picture itself, or a form with files, each under a name that says of what kind it is. Nothing is
written to disk: the form parser's own habit of spooling large files to a temporary one is switched off. No
URL is ever fetched: a string where a picture belongs is refused.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from registry.bundle.cases import Kind
from registry.bundle.errors import NotAPicture, UnsupportedPicture
from registry.bundle.pictures.open_file import Format, picture_format
from serving.protocol.parameters import one_value_each
from serving.protocol.problems import (
    BodyTooLarge,
    InvalidParameter,
    MalformedRequest,
    NotAnImage,
    WrongMediaType,
)


async def stream_body(
    request: Request, ceiling: int, too_large: str, what: str = "body"
) -> AsyncGenerator[bytes, None]:
    """Streams the body, and refuses it past `ceiling` bytes; the rest is discarded unread.

    The connection stays open: a caller who is still sending would lose the response if it were closed.

    Args:
        request: the request.
        ceiling: the most bytes that the body may have.
        too_large: the error message for a larger body.
        what: what the body is, for the error message about an incomplete one.

    Raises:
        BodyTooLarge: the body is, or is announced to be, larger than `ceiling`.
        MalformedRequest: the connection ended before the body did.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > ceiling:
        raise BodyTooLarge(too_large)
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > ceiling:
                raise BodyTooLarge(too_large)
            yield chunk
    except ClientDisconnect as error:
        raise MalformedRequest(f"the connection ended before the {what} did; send it again") from error


async def read_body(request: Request, ceiling: int, too_large: str, what: str = "body") -> bytes:
    """The whole body.

    Raises:
        BodyTooLarge, MalformedRequest: as `stream_body`.
    """
    return b"".join([chunk async for chunk in stream_body(request, ceiling, too_large, what)])


FORM: Final = "multipart/form-data"
FIELD: Final = "image"

KINDS: Final[Mapping[str, Kind | None]] = {
    FIELD: None,
    "close_up": "close-up",
    "dermoscopic": "dermoscopic",
    "overview": "overview",
}
"""The names that files of a form may have, and of what kind each is."""

MAX_PICTURES: Final = 8
"""How many files a form may hold; no model takes more."""

MEDIA_TYPES: Final[Mapping[str, Format]] = {
    "image/jpeg": "JPEG",
    "image/jpg": "JPEG",
    "image/png": "PNG",
    "image/webp": "WebP",
    "image/heic": "HEIC",
    "image/heif": "HEIC",
    "image/avif": "AVIF",
    "application/dicom": "DICOM",
}

BYTES: Final = "application/octet-stream"
"""A picture of which its sender does not say the format; it is told by content, as of every other."""

# A form's file may also come without a media type.
_UNDECLARED = frozenset({"", BYTES})

# A part of a form that has such a media type and no file name is a text.
_TEXTS = frozenset({"", "text/plain"})

# Starlette decodes by whichever of Python's codecs a form names; not all of them are for text.
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})

_MAX_FIELDS = 64
_FORM_OVERHEAD = 64 * 1024


@dataclass(frozen=True)
class UploadedPicture:
    """An uploaded file, not looked at yet.

    Attributes:
        content: its bytes.
        declared: its declared media type; `check_format` checks it.
        kind: of what kind it was sent as; None for `image`.
    """

    content: bytes = field(repr=False)
    declared: str
    kind: Kind | None = None


@dataclass(frozen=True)
class Upload:
    """Uploaded files, with the form's other fields.

    Attributes:
        pictures: the files, in their order; at least one.
        fields: of the form.
    """

    pictures: tuple[UploadedPicture, ...]
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)


class _InMemory(MultiPartParser):
    """Starlette's parser, which never reaches for a temporary file: the body's size is capped."""

    spool_max_size = 2**62
    ended = False

    def on_headers_finished(self) -> None:
        """Takes a picture for a file where it has a media type and no file name, as some clients send it."""
        part = self._current_part
        _, options = parse_options_header(part.content_disposition)
        declared = next((value for name, value in part.item_headers if name == b"content-type"), b"")
        named = options.get(b"name", b"").decode("latin-1") in KINDS
        if named and b"filename" not in options and media_type(declared.decode("latin-1")) not in _TEXTS:
            part.content_disposition = (part.content_disposition or b"") + b'; filename=""'
        super().on_headers_finished()

    def on_end(self) -> None:
        """The closing boundary has come."""
        self.ended = True

    def close(self) -> None:
        """Lets go of every file, also of one that the form breaks off in."""
        for file in self._files_to_close_on_error:
            file.close()


async def read_upload(request: Request, max_bytes: int) -> Upload:
    """Reads the pictures in a request's body or form.

    Raises:
        WrongMediaType: not declared as a picture.
        BodyTooLarge: more than `max_bytes` in all; the rest is thrown away unread.
        InvalidParameter: a form without a picture, or with a file of another name.
        MalformedRequest: a form that cannot be read, or a body that ended early.
    """
    declared = media_type(request.headers.get("content-type", ""))
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise WrongMediaType(f"the body is declared as compressed ({coding[:100]}); send it as it is")
    if declared == FORM:
        return await _from_form(request, max_bytes)
    if not _may_be_a_picture(declared):
        raise WrongMediaType(
            f"the body is declared as {declared[:100] or 'nothing'}; send the picture itself as "
            f"{', '.join(MEDIA_TYPES)} or {BYTES}, or a form ({FORM}) with a file `{FIELD}`"
        )
    content = await read_body(request, max_bytes, _too_large(max_bytes), "picture")
    return Upload((UploadedPicture(content, declared),))


def media_type(header: str) -> str:
    """The media type of a Content-Type header, without its parameters."""
    return header.partition(";")[0].strip().lower()


def _may_be_a_picture(declared: str) -> bool:
    """Whether it is declared as a picture; one of another format is refused by its content, in more words."""
    return declared in MEDIA_TYPES or declared == BYTES or declared.startswith("image/")


def check_format(content: bytes, declared: str) -> None:
    """Refuses bytes that are no picture, or are of another format than declared.

    Raises:
        NotAnImage, WrongMediaType: as their names say.
    """
    try:
        found = picture_format(content)
    except UnsupportedPicture as error:
        raise WrongMediaType(str(error)) from error
    except NotAPicture as error:
        if declared in _UNDECLARED or declared in MEDIA_TYPES:
            raise NotAnImage(str(error)) from error
        raise WrongMediaType(
            f"the picture is declared as {declared[:100]}; allowed are {', '.join(MEDIA_TYPES)}"
        ) from error
    if declared not in _UNDECLARED and MEDIA_TYPES.get(declared) != found:
        raise WrongMediaType(f"the picture is {found}, but declared as {declared}; declare what it is")


def _too_large(max_bytes: int) -> str:
    return (
        f"the picture has more than {max_bytes:,} bytes, or all pictures together have; send a smaller copy"
    )


async def _from_form(request: Request, max_bytes: int) -> Upload:
    _, options = parse_options_header(request.headers["content-type"])
    charset = options.get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in _CHARSETS:
        raise MalformedRequest(f"the form is declared as {charset[:100]}; send its fields as UTF-8")
    stream = stream_body(request, max_bytes + _FORM_OVERHEAD, _too_large(max_bytes), "picture")
    parser = _InMemory(request.headers, stream, max_files=MAX_PICTURES, max_fields=_MAX_FIELDS)
    try:
        form = await parser.parse()
        if not parser.ended:
            raise MalformedRequest("the form ends early, without its closing boundary; send it again")
        pictures = [
            await _picture(name, value)
            for name, value in form.multi_items()
            if isinstance(value, UploadFile) and (value.filename or value.size)
        ]
    except MultiPartException as error:
        raise MalformedRequest(f"the form cannot be read ({error.message}); send a file `{FIELD}`") from error
    finally:
        parser.close()
    if sum(len(picture.content) for picture in pictures) > max_bytes:
        raise BodyTooLarge(_too_large(max_bytes))
    fields = one_value_each((name, value) for name, value in form.multi_items() if isinstance(value, str))
    for name in KINDS:
        if fields.pop(name, ""):  # an empty one is a picture that was not chosen
            raise _no_file(name)
    if not pictures:
        raise _no_file(FIELD)
    return Upload(tuple(pictures), fields)


def _no_file(name: str) -> InvalidParameter:
    return InvalidParameter(
        f"the form holds no file `{name}`; send the picture's bytes as a file of this name. A URL or a text "
        "in its place is not fetched or read"
    )


async def _picture(name: str, file: UploadFile) -> UploadedPicture:
    """One file of a form. A field that a browser's user left empty is none: it has no name and no bytes."""
    if name not in KINDS:
        raise InvalidParameter(
            f"there is no file `{name[:100]}` in a form; pictures are sent as {', '.join(KINDS)}"
        )
    declared = media_type(file.content_type or "")
    if declared and not _may_be_a_picture(declared):
        raise WrongMediaType(
            "the file `{name}` is declared as {declared}; allowed are {allowed}".format(
                name=name, declared=declared[:100], allowed=", ".join(MEDIA_TYPES)
            )
        )
    return UploadedPicture(await file.read(), declared, KINDS[name])
