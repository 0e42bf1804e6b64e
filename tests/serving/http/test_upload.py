import io
import os
import struct
import tempfile
import threading
import zlib
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


def form_body(*parts, end=b"--B--\r\n"):
    """A form, written by hand: the headers and the content of each part."""
    return b"".join(b"--B\r\n" + head + b"\r\n\r\n" + content + b"\r\n" for head, content in parts) + end


def send_form(service, body, **options):
    return service.diagnose(body, "multipart/form-data; boundary=B", **options)


NAMED = b'Content-Disposition: form-data; name="image"'
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
    answer = send_form(service, form_body((head, picture()), TONE))
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
    assert said in problem(send_form(service, form_body((head, b"https://a.example/b.jpg"))), 422)["detail"]


def test_a_form_that_ends_early_is_said_to(service, problem, picture):
    whole = form_body((NAMED + b'; filename="a.jpg"\r\nContent-Type: image/jpeg', picture()), TONE)
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
