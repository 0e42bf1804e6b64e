"""Pictures and forms as they are sent: what passes, and what is refused with a problem."""

import gzip
import io
import os
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests import colour_profiles

# Pillow warns of EXIF that it cannot read, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def encoded(image, form="JPEG", **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def turned(image):
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(image, exif=exif)


def motion_photo(image):
    """A phone's photograph with a film behind it, named in its metadata."""
    boxes = b"".join(
        struct.pack(">I", 8 + len(data)) + kind + data
        for kind, data in (
            (b"ftyp", b"mp42\0\0\0\0isommp42"),
            (b"mdat", bytes(range(256)) * 400),
            (b"moov", b""),
        )
    )
    xmp = b'<?xpacket begin=""?><x:xmpmeta><GCamera:MotionPhoto>1</GCamera:MotionPhoto></x:xmpmeta>'
    return encoded(image, xmp=xmp) + boxes


def huge_profile() -> bytes:
    """A phone's colours, and half a megabyte that its maker keeps there."""
    curve = colour_profiles.parametric(*colour_profiles.SRGB_CURVE)
    tags = colour_profiles.matrix_tags(colour_profiles.DISPLAY_P3, curve)
    return colour_profiles.profile({**tags, b"more": b"data" + bytes(500_000)})


GOOD = {
    "a JPEG": (lambda image: encoded(image()), "image/jpeg"),
    "a JPEG under its nickname": (lambda image: encoded(image()), "image/jpg"),
    "a type with a parameter": (lambda image: encoded(image()), "Image/JPEG; q=1"),
    "a progressive JPEG": (lambda image: encoded(image(), progressive=True), "image/jpeg"),
    "a grey JPEG": (lambda image: encoded(image().convert("L")), "image/jpeg"),
    "a CMYK JPEG": (lambda image: encoded(image().convert("CMYK")), "image/jpeg"),
    "a turned JPEG": (lambda image: turned(image()), "image/jpeg"),
    "EXIF that cannot be read": (
        lambda image: encoded(image(), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + bytes(40)),
        "image/jpeg",
    ),
    "a thumbnail behind": (lambda image: encoded(image()) + encoded(image(size=(16, 12))), "image/jpeg"),
    "a film behind": (lambda image: motion_photo(image()), "image/jpeg"),
    "a huge profile": (lambda image: encoded(image(), icc_profile=huge_profile()), "image/jpeg"),
    "a PNG": (lambda image: encoded(image(), "PNG"), "image/png"),
    "a 16-bit grey PNG": (
        lambda image: encoded(Image.fromarray(np.full((20, 20), 40_000, np.uint16)), "PNG"),
        "image/png",
    ),
    "a palette with transparency": (
        lambda image: encoded(image().convert("P"), "PNG", transparency=0),
        "image/png",
    ),
    "a PNG with transparency": (lambda image: encoded(image().convert("RGBA"), "PNG"), "image/png"),
    "a two-colour PNG": (lambda image: encoded(image().convert("1"), "PNG"), "image/png"),
    "a JPEG whose format nobody says": (lambda image: encoded(image()), "application/octet-stream"),
    "a WebP whose format nobody says": (lambda image: encoded(image(), "WEBP"), "application/octet-stream"),
    "a WebP": (lambda image: encoded(image(), "WEBP"), "image/webp"),
    "a lossless WebP": (lambda image: encoded(image(), "WEBP", lossless=True), "image/webp"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_cameras_and_apps_send_passes(service, bundle, image, name):
    draw, kind = GOOD[name]
    sent = draw(image)
    answer = service.diagnose(sent, kind)
    assert answer.status_code == 200, answer.text
    graph = Graph(bundle().model)
    expected = graph.run(decode_picture(sent, PictureRule(size=8))[None]).probabilities[0]
    got = {finding["code"]: finding["probability"] for finding in answer.json()["findings"]}
    assert [got[code] for code in ("MEL", "NV", "AK")] == [float(p) for p in expected]
    assert answer.json()["quality"] == {"acceptable": True, "issues": []}


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("stripe", [0.005, 0.05, 0.9])
def test_a_transparent_part_makes_no_picture_surer(service, image, mode, stripe):
    """Attack: a model that sees it white may be surer. Control: with all of it opaque there is an answer."""
    drawn = image(size=(400, 40)).convert(mode)
    alpha = Image.new("L", drawn.size, 255)
    drawn.putalpha(alpha)
    assert service.diagnose(encoded(drawn, "PNG"), "image/png").json()["decision"] != "retake"
    alpha.paste(0, (0, 0, round(400 * stripe), 40))
    drawn.putalpha(alpha)
    answer = service.diagnose(encoded(drawn, "PNG"), "image/png").json()
    assert any("transparent" in issue for issue in answer["quality"]["issues"])
    assert (answer["decision"] == "retake") == (stripe > 0.01)
    assert ("transparent" in [reason["code"] for reason in answer["reasons"]]) == (stripe > 0.01)


def test_the_turn_that_exif_asks_for_counts(service, image):
    lying, turning = encoded(image()), turned(image())
    rule = PictureRule(size=8)
    assert (decode_picture(lying, rule) != decode_picture(turning, rule)).any()


def test_a_form_says_its_charset_as_utf_8_alone(service, picture):
    body = (
        b'--B\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        + picture()
        + b"\r\n--B--\r\n"
    )
    for charset in ("utf-8", "UTF-8", "utf8", "us-ascii"):
        answer = service.diagnose(body, f"multipart/form-data; charset={charset}; boundary=B")
        assert answer.status_code == 200, answer.text


def test_the_largest_picture_passes_and_one_byte_more_does_not(
    serve, registry, promote, bundle, picture, problem
):
    promote(registry, bundle())
    sent = picture()
    with serve(max_bytes=len(sent)) as service:
        for ask in (service.diagnose, lambda content: service.form({}, files={"image": ("a", content)})):
            assert ask(sent).status_code == 200
            assert f"more than {len(sent):,} bytes" in problem(ask(sent + b"\0"), 413)["detail"]


def form(*parts: tuple[bytes, bytes], end: bytes = b"--B--\r\n", line: bytes = b"\r\n") -> bytes:
    """A form with the boundary B of these heads and bodies."""
    return b"".join(b"--B" + line + head + line * 2 + body + line for head, body in parts) + end


FILE = b'Content-Disposition: form-data; name="image"; filename="a.jpg"\r\nContent-Type: image/jpeg'


def field(name: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"'


def send_form(service, body, **options):
    return service.diagnose(body, "multipart/form-data; boundary=B", **options)


NAMED = field(b"image")
TONE = (b'Content-Disposition: form-data; name="skin_tone"\r\nContent-Type: text/plain; charset=utf-8', b"V")


@pytest.mark.parametrize(
    "head",
    [
        NAMED + b"\r\nContent-Type: image/jpeg",
        b"Content-Type: image/jpeg\r\n" + NAMED,
        NAMED + b"\r\nContent-Type: application/octet-stream",
        NAMED + b'; filename=""\r\nContent-Type: image/jpeg',
        NAMED + b'; filename="L\xc3\xa4sion 1.jpg"\r\nContent-Type: application/octet-stream',
        NAMED + b'; filename="a.jpg"',
    ],
)
def test_a_file_of_a_form_needs_no_name_or_no_type(service, picture, head):
    answer = send_form(service, form((head, picture()), TONE))
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"]["route"] == "declared"
    assert answer.json()["findings"] == service.diagnose(params={"skin_tone": "V"}).json()["findings"]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (NAMED, "holds no file `image`"),
        (NAMED + b"\r\nContent-Type: text/plain", "holds no file `image`"),
        (NAMED + b"\r\nContent-Type: text/plain;charset=utf-8", "holds no file `image`"),
    ],
)
def test_a_text_in_place_of_a_file_stays_a_text(service, problem, head, said):
    assert said in problem(send_form(service, form((head, b"https://a.example/b.jpg"))), 422)["detail"]


def test_a_form_that_ends_early_is_said_to(service, problem, picture):
    whole = form((FILE, picture()), TONE)
    assert send_form(service, whole).status_code == 200
    assert send_form(service, whole.removesuffix(b"\r\n")).status_code == 200
    for left in (len(whole) - 4, len(whole) - 12, len(whole) - 60, len(whole) // 2, 100, 40, 10, 3):
        answer = problem(send_form(service, whole[:left]), 400)
        assert answer["type"] == "urn:dermfed:problem:malformed-request"
        assert "ends early" in answer["detail"], left


@pytest.mark.parametrize(
    "kind", ["image/heic", "image/heif", "image/jpeg", "image/avif", "application/octet-stream"]
)
def test_a_picture_of_another_format_is_named_by_its_content_however_declared(service, problem, kind):
    heic = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + bytes(200)
    answers = [service.diagnose(heic, kind), service.form({}, files={"image": ("IMG_1.HEIC", heic, kind)})]
    for answer in answers:
        assert "HEIC" in problem(answer, 415)["detail"]


def test_a_picture_that_is_declared_as_another_one_is_refused(service, problem, picture):
    assert "declared as image/heic" in problem(service.diagnose(picture(), "image/heic"), 415)["detail"]


def ten_megabytes(picture):
    """A sound PNG with ten megabytes in a chunk of its own."""
    whole, junk = picture("PNG"), os.urandom(10 * 2**20)
    body = b"juNk" + junk
    return whole[:33] + struct.pack(">I", len(junk)) + body + struct.pack(">I", zlib.crc32(body)) + whole[33:]


def test_no_picture_is_written_to_a_disk(service, picture, monkeypatch):
    sent = ten_megabytes(picture)
    refused = []

    def refuse(*arguments, **options):
        refused.append(arguments)
        raise AssertionError("a temporary file was asked for")

    for name in ("TemporaryFile", "NamedTemporaryFile", "mkstemp", "_mkstemp_inner"):
        monkeypatch.setattr(tempfile, name, refuse)
    service.diagnose()  # whatever is opened once is open
    seen, ended = set(), threading.Event()
    before = open_files()

    def watch():
        while not ended.wait(0.001):
            seen.update(open_files() - before)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        answers = [
            service.form({"skin_tone": "5"}, files={"image": ("lesion.png", sent, "image/png")}),
            service.diagnose(sent, "image/png"),
        ]
    finally:
        ended.set()
        watching.join()
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
    assert not refused
    # The registry is asked meanwhile: its files are no picture's.
    assert {path for path in seen if "registry.db" not in path} == set()


def open_files() -> set[str]:
    """The regular files that this process holds open, deleted ones too."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            if (path := str(link.readlink())).startswith("/") and not path.startswith(("/dev/", "/proc/")):
                found.add(path)
        except OSError:
            continue
    return found


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
