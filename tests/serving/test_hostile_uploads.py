"""What nobody should send: every one is answered with a problem, and the service goes on."""

import gzip
from collections.abc import Callable, Iterator

import numpy as np
import pytest

# Pillow warns of EXIF that it cannot read, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

RNG = np.random.default_rng(7)
JPEG, PNG = "image/jpeg", "image/png"


def bodies(picture: Callable[..., bytes]) -> Iterator[tuple[str, bytes, str, set[int]]]:
    """What the corpus has not: a name, the bytes, the type declared, and the statuses that may answer."""
    jpeg = picture("JPEG")
    bad, wrong = {400}, {415}
    yield "JPEG declared as text", jpeg, "text/plain", wrong
    yield "JPEG declared as DICOM", jpeg, "application/dicom", wrong
    yield "a long type", jpeg, "image/" + "j" * 5000, wrong
    yield "a form that is a query", b"image=%FF%D8%FF", "application/x-www-form-urlencoded", wrong
    for form in ("GIF", "BMP", "TIFF"):
        yield f"{form} under its own name", picture(form), f"image/{form.lower()}", wrong
    yield "HEIC", b"\0\0\0\x18ftypheic" + bytes(500), JPEG, wrong
    yield "AVIF", b"\0\0\0\x18ftypavif" + bytes(500), "image/avif", wrong
    yield "DICOM", bytes(128) + b"DICM" + bytes(500), JPEG, wrong
    yield "SVG under its own name", b"<svg/>", "image/svg+xml", wrong
    yield "random bytes", RNG.bytes(20_000), JPEG, bad
    yield "NUL bytes after the magic", b"\xff\xd8\xff" + bytes(20_000), JPEG, bad


def form(*parts: tuple[bytes, bytes], end: bytes = b"--B--\r\n", line: bytes = b"\r\n") -> bytes:
    """A form with the boundary B of these heads and bodies."""
    return b"".join(b"--B" + line + head + line * 2 + body + line for head, body in parts) + end


FILE = b'Content-Disposition: form-data; name="image"; filename="a.jpg"\r\nContent-Type: image/jpeg'


def field(name: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"'


def forms(jpeg: bytes) -> Iterator[tuple[str, bytes, str, set[int]]]:
    """Forms, like `bodies`."""
    kind = "multipart/form-data; boundary=B"
    bad, odd = {400}, {422}
    sound = (FILE, jpeg)
    yield "no boundary", form(sound), "multipart/form-data", bad
    yield "an empty boundary", form(sound), "multipart/form-data; boundary=", bad | {422}
    yield "another boundary", form(sound), "multipart/form-data; boundary=C", bad
    yield "a long boundary", form(sound), "multipart/form-data; boundary=" + "B" * 5000, bad
    yield "an empty form", b"", kind, bad
    yield "a form of nothing", b"--B--\r\n", kind, bad | odd
    yield "a form without its end", form(sound, end=b""), kind, bad
    yield "a form cut in the picture", form(sound)[: len(jpeg) // 2], kind, bad
    yield "a form cut in a head", form(sound)[:40], kind, bad
    yield "a head without its end", b"--B\r\nContent-Disposition: form-data", kind, bad
    yield "a form of bare line feeds", form(sound, line=b"\n"), kind, bad
    yield "a head that is none", form((b"nothing", jpeg)), kind, bad
    yield "a head of NUL bytes", form((b"\0\0: \0", jpeg)), kind, bad
    yield "no disposition", form((b"Content-Type: image/jpeg", jpeg)), kind, bad
    yield "no name", form((b"Content-Disposition: form-data", jpeg)), kind, bad
    yield (
        "a name in the extended form",
        form((b"Content-Disposition: form-data; name*=x''i", jpeg)),
        kind,
        bad,
    )
    yield "two files", form(sound, sound), kind, odd
    yield "two files of two names", form(sound, (FILE.replace(b"image", b"other"), jpeg)), kind, odd
    yield "nine files", form(*[sound] * 9), kind, bad
    yield "a file of another name", form((FILE.replace(b'"image"', b'"picture"'), jpeg)), kind, odd
    yield "a file of no name", form((FILE.replace(b'"image"', b'""'), jpeg)), kind, odd
    yield "a URL as the picture", form((field(b"image"), b"http://127.0.0.1:9/a.jpg")), kind, odd
    yield "a URL beside it", form(sound, (field(b"image"), b"http://127.0.0.1:9/a.jpg")), kind, odd
    yield "a URL in the file", form((FILE, b"http://127.0.0.1:9/a.jpg")), kind, bad
    yield "the picture as a field", form((field(b"image"), jpeg)), kind, odd
    yield "an empty file", form((FILE, b"")), kind, bad
    yield "a file declared as text", form((FILE.replace(b"image/jpeg", b"text/html"), jpeg)), kind, {415}
    yield "a file declared as PNG", form((FILE.replace(b"image/jpeg", b"image/png"), jpeg)), kind, {415}
    yield "a thousand fields", form(*[(field(b"f%d" % n), b"1") for n in range(1000)], sound), kind, bad
    yield "a field of two million bytes", form((field(b"model"), b"m" * 2_000_000), sound), kind, bad
    yield "a name of a million bytes", form((field(b"n" * 10**6), b"1"), sound), kind, bad | odd
    yield "a name of NUL bytes", form((field(b"\0" * 9), b"1"), sound), kind, odd
    yield "a name that is no UTF-8", form((field(b"\xff\xfe\xfd"), b"1"), sound), kind, odd
    yield "a value that is no UTF-8", form((field(b"skin_tone"), b"\xff\xfe"), sound), kind, odd
    yield "a value of NUL bytes", form((field(b"model"), b"\0" * 50), sound), kind, {404}
    for charset in ("undefined", "punycode", "idna", "utf-7", "unicode_escape", "zlib", "nothing", "utf-16"):
        for name in (b"\\ud800", b"+2AA-", b"skin_tone"):
            said = f"{kind}; charset={charset}"
            yield f"{name!r} in {charset}", form((field(name), b"+2AA-"), sound), said, bad


@pytest.fixture(scope="module")
def hostile(picture) -> list[tuple[str, bytes, str, set[int]]]:
    return [*bodies(picture), *forms(picture())]


def test_there_are_many_of_them(hostile):
    assert len({name for name, *_ in hostile}) == len(hostile) > 60


def test_each_is_answered_with_a_problem_and_the_next_picture_passes(service, problem, hostile):
    for name, content, kind, statuses in hostile:
        answer = service.diagnose(content, kind)
        assert answer.status_code in statuses, (name, answer.status_code, answer.text)
        if answer.status_code != 200:
            problem(answer, answer.status_code)
    assert service.diagnose().status_code == 200


def test_no_byte_changed_in_a_form_is_a_failure(service, problem, picture):
    whole = form((FILE, picture("PNG", size=(8, 8))), (field(b"skin_tone"), b"5"))
    for at in sorted(RNG.choice(len(whole), size=150, replace=False)):
        changed = bytearray(whole)
        changed[at] = int(RNG.choice([0, 10, 13, 34, 42, 59, 92, 255, changed[at] ^ 32]))
        answer = service.diagnose(bytes(changed), "multipart/form-data; boundary=B")
        assert answer.status_code < 500, (at, changed[at], answer.text)
        if answer.status_code != 200:
            problem(answer, answer.status_code)
    assert service.diagnose().status_code == 200


@pytest.mark.parametrize("length", ["announced", "chunked"])
@pytest.mark.parametrize("kind", [JPEG, "multipart/form-data; boundary=B"])
def test_sixty_megabytes_are_refused(service, problem, kind, length):
    piece = bytes(2**20)
    head = form((FILE, b""), end=b"")[:-2] if kind != JPEG else b"\xff\xd8\xff"
    body = head + piece * 60 if length == "announced" else (piece if n else head for n in range(61))
    said = problem(service.diagnose(body, kind), 413)["detail"]
    assert "20,971,520 bytes" in said
    assert service.diagnose().status_code == 200


def test_an_announced_giant_is_refused_before_it_comes(service):
    head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
    got = service.raw(head + b"Content-Length: 60000000000\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in got


@pytest.mark.parametrize("length", [b"-1", b"+5", b"1e3", b"0x10", b"5, 6", b"9" * 5000])
def test_a_length_that_is_none_never_reaches_us(service, length):
    head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: "
    got = service.raw(head + length + b"\r\n\r\n", end=True)
    assert got.startswith(b"HTTP/1.1 4")
    assert service.diagnose().status_code == 200


def test_a_body_that_ends_early_is_no_failure(service):
    head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
    got = service.raw(head + b"Content-Length: 5000\r\n\r\n\xff\xd8\xff", end=True)
    assert b"HTTP/1.1 5" not in got
    assert service.diagnose().status_code == 200


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip"])
def test_a_compressed_body_is_refused_by_name(service, problem, picture, coding):
    for content in (gzip.compress(picture()), picture()):
        said = problem(service.diagnose(content, headers={"Content-Encoding": coding}), 415)["detail"]
        assert coding in said
    assert service.diagnose(headers={"Content-Encoding": "identity"}).status_code == 200
