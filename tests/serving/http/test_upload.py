"""Pictures and forms as they are sent: what passes, and what is refused with a problem."""

import gzip
import os
import struct
import sys
import tempfile
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from registry.bundle.errors import UnsupportedPicture
from registry.bundle.model import Graph
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests import colour_profiles
from tests.heif_files import heic
from tests.serving.conftest import encode, paint

# Pillow warns of EXIF that it cannot read, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

IMAGE, JPEG = paint(), encode(paint())
KIND, FORM = "image/jpeg", "multipart/form-data; boundary=B"


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return encode(IMAGE, exif=exif)


def motion_photo():
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
    return encode(IMAGE, xmp=xmp) + boxes


def huge_profile():
    """A phone's colours, and half a megabyte that its maker keeps there."""
    curve = colour_profiles.parametric(*colour_profiles.SRGB_CURVE)
    tags = colour_profiles.matrix_tags(colour_profiles.DISPLAY_P3, curve)
    return colour_profiles.profile({**tags, b"more": b"data" + bytes(500_000)})


PASSES = {
    "a JPEG": (JPEG, KIND),
    "a JPEG under its nickname": (JPEG, "image/jpg"),
    "a JPEG whose format is not declared": (JPEG, "application/octet-stream"),
    "a type with a parameter": (JPEG, "Image/JPEG; q=1"),
    "a progressive JPEG": (encode(IMAGE, progressive=True), KIND),
    "a grey JPEG": (encode(IMAGE.convert("L")), KIND),
    "a turned JPEG": (turned(), KIND),
    "EXIF that cannot be read": (encode(IMAGE, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + bytes(40)), KIND),
    "a thumbnail behind": (JPEG + encode(paint(size=(16, 12))), KIND),
    "a film behind": (motion_photo(), KIND),
    "a huge profile": (encode(IMAGE, icc_profile=huge_profile()), KIND),
    "a PNG": (encode(IMAGE, "PNG"), "image/png"),
    "a 16-bit grey PNG": (
        encode(Image.fromarray(np.full((20, 20), 40_000, np.uint16)), "PNG"),
        "image/png",
    ),
    "a palette with transparency": (encode(IMAGE.convert("P"), "PNG", transparency=0), "image/png"),
    "a PNG with transparency": (encode(IMAGE.convert("RGBA"), "PNG"), "image/png"),
    "a two-colour PNG": (encode(IMAGE.convert("1"), "PNG"), "image/png"),
    "a WebP whose format is not declared": (encode(IMAGE, "WEBP"), "application/octet-stream"),
    "a lossless WebP": (encode(IMAGE, "WEBP", lossless=True), "image/webp"),
}


@pytest.mark.parametrize("name", PASSES)
def test_what_cameras_and_apps_send_is_answered_as_the_model_says(service, bundle, name):
    content, kind = PASSES[name]
    answer = service.diagnose(content, kind)
    assert answer.status_code == 200, answer.text
    pixels = decode_picture(content, PictureRule(size=8))
    expected = Graph(bundle().model).run(pixels[None]).probabilities[0]
    got = {finding["code"]: finding["probability"] for finding in answer.json()["findings"]}
    assert [got[code] for code in ("MEL", "NV", "AK")] == [float(p) for p in expected]
    assert answer.json()["quality"] == {"acceptable": True, "issues": []}


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("stripe", [0.005, 0.05, 0.9])
def test_a_transparent_part_makes_no_picture_surer(service, mode, stripe):
    """Attack: a model that sees it white may be surer. Control: with all of it opaque there is an answer."""
    drawn = paint(size=(400, 40)).convert(mode)
    alpha = Image.new("L", drawn.size, 255)
    drawn.putalpha(alpha)
    assert service.diagnose(encode(drawn, "PNG"), "image/png").json()["decision"] != "retake"
    alpha.paste(0, (0, 0, round(400 * stripe), 40))
    drawn.putalpha(alpha)
    answer = service.diagnose(encode(drawn, "PNG"), "image/png").json()
    assert any("transparent" in issue for issue in answer["quality"]["issues"])
    assert (answer["decision"] == "retake") == (stripe > 0.01)
    assert ("transparent" in [reason["code"] for reason in answer["reasons"]]) == (stripe > 0.01)


def form(*parts, end=b"--B--\r\n", line=b"\r\n"):
    """A form with the boundary B of these heads and bodies."""
    return b"".join(b"--B" + line + head + line * 2 + body + line for head, body in parts) + end


def field(name):
    return b'Content-Disposition: form-data; name="' + name + b'"'


NAMED = field(b"image")
FILE = NAMED + b'; filename="a.jpg"\r\nContent-Type: image/jpeg'
TONE = (field(b"skin_tone") + b"\r\nContent-Type: text/plain; charset=utf-8", b"V")
SOUND = (FILE, JPEG)
URL = b"http://127.0.0.1:9/a.jpg"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(NAMED + b"\r\nContent-Type: image/jpeg", id="a type and no name"),
        pytest.param(b"Content-Type: image/jpeg\r\n" + NAMED, id="the type first"),
        pytest.param(NAMED + b"\r\nContent-Type: application/octet-stream", id="a type of bytes"),
        pytest.param(NAMED + b'; filename=""\r\nContent-Type: image/jpeg', id="an empty name"),
        pytest.param(NAMED + b'; filename="L\xc3\xa4sion 1.jpg"', id="a name beyond ASCII and no type"),
    ],
)
def test_a_file_of_a_form_needs_no_name_or_no_type(service, head):
    answer = service.diagnose(form((head, JPEG), TONE), FORM)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"]["route"] == "declared"
    assert answer.json()["findings"] == service.diagnose(params={"skin_tone": "V"}).json()["findings"]


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", "utf8", "us-ascii"])
def test_a_form_may_declare_its_charset_as_utf_8(service, charset):
    answer = service.diagnose(form(SOUND), f"{FORM}; charset={charset}")
    assert answer.status_code == 200, answer.text


def test_the_largest_picture_passes_and_one_byte_more_does_not(serve, registry, promote, bundle, problem):
    promote(registry, bundle())
    with serve(max_bytes=len(JPEG)) as service:
        for ask in (service.diagnose, lambda content: service.form({}, files={"image": ("a", content)})):
            assert ask(JPEG).status_code == 200
            assert f"more than {len(JPEG):,} bytes" in problem(ask(JPEG + b"\0"), 413)["detail"]


@pytest.mark.parametrize("missing", [4, 12, 60, 500])
def test_a_form_that_ends_early_is_called_so(service, problem, missing):
    whole = form(SOUND, TONE)
    assert service.diagnose(whole.removesuffix(b"\r\n"), FORM).status_code == 200
    answer = problem(service.diagnose(whole[:-missing], FORM), 400)
    assert answer["type"] == "urn:dermfed:problem:malformed-request"
    assert "ends early" in answer["detail"]


@pytest.mark.parametrize(
    ("kind", "status"), [("image/heic", 200), ("application/octet-stream", 200), (KIND, 415)]
)
@pytest.mark.parametrize("form", ["HEIC", "AVIF"])
def test_what_phones_take_is_answered_and_named_by_its_content(service, problem, form, kind, status):
    content = heic() if form == "HEIC" else encode(IMAGE, "AVIF")
    kind = kind.replace("heic", form.lower())
    for answer in (
        service.diagnose(content, kind),
        service.form({}, files={"image": (f"IMG_1.{form}", content, kind)}),
    ):
        assert answer.status_code == status
        assert status == 200 or f"the picture is {form}, but declared" in problem(answer, status)["detail"]


def test_without_its_extra_heic_is_refused_with_the_way_to_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(
        UnsupportedPicture, match=r'HEIC, which .* `heic` is installed \(pip install "dermfed\[heic\]"\)'
    ):
        open_picture(heic())


def test_no_picture_is_written_to_a_disk(service, monkeypatch):
    png, junk = encode(IMAGE, "PNG"), b"juNk" + os.urandom(10 * 2**20)
    chunk = struct.pack(">I", len(junk) - 4) + junk + struct.pack(">I", zlib.crc32(junk))
    sent = png[:33] + chunk + png[33:]

    def refuse(*arguments, **options):
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
    # The registry is asked meanwhile: its files are no picture's.
    assert {path for path in seen if "registry.db" not in path} == set()


def open_files():
    """The regular files that this process holds open, deleted ones too."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            if (path := str(link.readlink())).startswith("/") and not path.startswith(("/dev/", "/proc/")):
                found.add(path)
        except OSError:
            continue
    return found


# What neither the corpus of hostile pictures nor the contract has: bytes, declared type, allowed statuses.
BODIES = {
    "a JPEG declared as DICOM": (JPEG, "application/dicom", {415}),
    "a JPEG declared as HEIC": (JPEG, "image/heic", {415}),
    "a long type": (JPEG, "image/" + "j" * 5000, {415}),
    "a form that is a query": (b"image=%FF%D8%FF", "application/x-www-form-urlencoded", {415}),
    "AVIF without a picture": (b"\0\0\0\x18ftypavif" + bytes(500), "image/avif", {400}),
    "DICOM declared as JPEG": (bytes(128) + b"DICM" + bytes(500), KIND, {415}),
    "SVG": (b"<svg/>", "image/svg+xml", {415}),
    "random bytes": (np.random.default_rng(7).bytes(20_000), KIND, {400}),
    "zeros after the magic": (b"\xff\xd8\xff" + bytes(20_000), KIND, {400}),
}
FORMS = {
    "an empty boundary": (form(SOUND), "multipart/form-data; boundary=", {400, 422}),
    "another boundary": (form(SOUND), "multipart/form-data; boundary=C", {400}),
    "a long boundary": (form(SOUND), "multipart/form-data; boundary=" + "B" * 5000, {400}),
    "an empty form": (b"", FORM, {400}),
    "a form of nothing": (b"--B--\r\n", FORM, {400, 422}),
    "a form without its end": (form(SOUND, end=b""), FORM, {400}),
    "a form cut in the picture": (form(SOUND)[: len(JPEG) // 2], FORM, {400}),
    "a form cut in a head": (form(SOUND)[:40], FORM, {400}),
    "a form of bare line feeds": (form(SOUND, line=b"\n"), FORM, {400}),
    "a malformed head": (form((b"nothing", JPEG)), FORM, {400}),
    "a head of zeros": (form((b"\0\0: \0", JPEG)), FORM, {400}),
    "no disposition": (form((b"Content-Type: image/jpeg", JPEG)), FORM, {400}),
    "no name": (form((b"Content-Disposition: form-data", JPEG)), FORM, {400}),
    "an extended name": (form((b"Content-Disposition: form-data; name*=x''i", JPEG)), FORM, {400}),
    "two files of two names": (form(SOUND, (FILE.replace(b"image", b"other"), JPEG)), FORM, {422}),
    "a file of another name": (form((FILE.replace(b'"image"', b'"picture"'), JPEG)), FORM, {422}),
    "a file of no name": (form((FILE.replace(b'"image"', b'""'), JPEG)), FORM, {422}),
    "a URL as the picture": (form((NAMED, URL)), FORM, {422}),
    "a URL as a text": (form((NAMED + b"\r\nContent-Type: text/plain;charset=utf-8", URL)), FORM, {422}),
    "a URL and the picture": (form(SOUND, (NAMED, URL)), FORM, {422}),
    "a URL in the file": (form((FILE, URL)), FORM, {400}),
    "the picture as a field": (form((NAMED, JPEG)), FORM, {422}),
    "an empty file": (form((FILE, b"")), FORM, {400}),
    "a file declared as text": (form((FILE.replace(b"image/jpeg", b"text/html"), JPEG)), FORM, {415}),
    "a file declared as PNG": (form((FILE.replace(b"image/jpeg", b"image/png"), JPEG)), FORM, {415}),
    "a thousand fields": (form(*[(field(b"f%d" % n), b"1") for n in range(1000)], SOUND), FORM, {400}),
    "a field of two million bytes": (form((field(b"model"), b"m" * 2_000_000), SOUND), FORM, {400}),
    "a name of a million bytes": (form((field(b"n" * 10**6), b"1"), SOUND), FORM, {400, 422}),
    "a name of zeros": (form((field(b"\0" * 9), b"1"), SOUND), FORM, {422}),
    "a name that is not UTF-8": (form((field(b"\xff\xfe\xfd"), b"1"), SOUND), FORM, {422}),
    "a value that is not UTF-8": (form((field(b"skin_tone"), b"\xff\xfe"), SOUND), FORM, {422}),
    "a value of zeros": (form((field(b"model"), b"\0" * 50), SOUND), FORM, {404}),
    **{
        f"a form in {charset}": (form((field(name), b"+2AA-"), SOUND), f"{FORM}; charset={charset}", {400})
        for charset, name in (
            ("undefined", b"skin_tone"),
            ("punycode", b"skin_tone"),
            ("utf-7", b"+2AA-"),
            ("unicode_escape", b"\\ud800"),
            ("zlib", b"skin_tone"),
            ("nothing", b"skin_tone"),
            ("utf-16", b"skin_tone"),
        )
    },
}


@pytest.mark.parametrize("name", [*BODIES, *FORMS])
def test_a_hostile_body_is_answered_with_a_problem_and_the_next_picture_passes(service, problem, name):
    content, kind, statuses = (BODIES | FORMS)[name]
    answer = service.diagnose(content, kind)
    assert answer.status_code in statuses, answer.text
    problem(answer, answer.status_code)
    assert service.diagnose().status_code == 200


def test_no_byte_changed_in_a_form_is_a_failure(service, problem, picture):
    rng = np.random.default_rng(7)
    whole = form((FILE, picture("PNG", size=(8, 8))), (field(b"skin_tone"), b"5"))
    for at in sorted(rng.choice(len(whole), size=150, replace=False)):
        changed = bytearray(whole)
        changed[at] = int(rng.choice([0, 10, 13, 34, 42, 59, 92, 255, changed[at] ^ 32]))
        answer = service.diagnose(bytes(changed), FORM)
        assert answer.status_code < 500, (at, changed[at], answer.text)
        if answer.status_code != 200:
            problem(answer, answer.status_code)
    assert service.diagnose().status_code == 200


@pytest.mark.parametrize("length", ["announced", "chunked"])
@pytest.mark.parametrize("kind", [KIND, FORM])
def test_sixty_megabytes_are_refused(service, problem, kind, length):
    piece = bytes(2**20)
    head = form((FILE, b""), end=b"")[:-2] if kind == FORM else b"\xff\xd8\xff"
    body = head + piece * 60 if length == "announced" else (piece if n else head for n in range(61))
    assert "20,971,520 bytes" in problem(service.diagnose(body, kind), 413)["detail"]
    assert service.diagnose().status_code == 200


HEAD = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: "


@pytest.mark.parametrize(
    ("length", "end", "status"),
    [
        pytest.param(b"60000000000", False, b"413", id="a giant is refused before it comes"),
        pytest.param(b"-1", True, b"4", id="negative"),
        pytest.param(b"+5", True, b"4", id="with a sign"),
        pytest.param(b"1e3", True, b"4", id="with an exponent"),
        pytest.param(b"5, 6", True, b"4", id="two lengths"),
        pytest.param(b"9" * 5000, True, b"4", id="thousands of digits"),
    ],
)
def test_a_false_length_is_refused(service, length, end, status, monkeypatch):
    monkeypatch.setattr("serving.http.middleware.READ_PAST_SECONDS", 0.1)
    assert service.raw(HEAD + length + b"\r\n\r\n", end=end).startswith(b"HTTP/1.1 " + status)
    assert service.diagnose().status_code == 200


def test_a_body_that_ends_early_is_no_failure(service):
    assert b"HTTP/1.1 5" not in service.raw(HEAD + b"5000\r\n\r\n\xff\xd8\xff", end=True)
    assert service.diagnose().status_code == 200


@pytest.mark.parametrize("content", [gzip.compress(JPEG), JPEG], ids=["compressed", "only declared so"])
def test_a_compressed_body_is_refused_by_name(service, problem, content):
    refused = service.diagnose(content, headers={"Content-Encoding": "deflate, gzip"})
    assert "deflate, gzip" in problem(refused, 415)["detail"]
    assert service.diagnose(headers={"Content-Encoding": "identity"}).status_code == 200
