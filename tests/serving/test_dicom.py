"""Photographs in DICOM files, over HTTP."""

import logging
import zlib

import numpy as np
import pytest
from pydicom import uid
from pydicom.dataset import Dataset

from serving.decoding.template import PROGRAM, Template
from tests.dicom_files import PATIENT, dicom_file, saved

DICOM = "application/dicom"


@pytest.fixture(scope="module")
def pixels(image) -> np.ndarray:
    return np.asarray(image(size=(40, 31)))


def said(answer):
    """A diagnosis without what is its own."""
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if name not in ("id", "created")}


@pytest.mark.parametrize(
    "syntax", [uid.ExplicitVRLittleEndian, uid.ImplicitVRLittleEndian, uid.DeflatedExplicitVRLittleEndian]
)
def test_a_file_is_answered_as_its_picture_is(service, pixels, syntax):
    expected = said(service.diagnose(saved(pixels), "image/png", params={"skin_tone": "V"}))
    file = dicom_file(pixels, syntax=syntax)
    assert said(service.diagnose(file, DICOM, params={"skin_tone": "V"})) == expected


def test_a_jpeg_in_a_file_is_answered_as_the_jpeg_is(service, image):
    jpeg = saved(image(size=(400, 310)), "JPEG")
    file = dicom_file(jpeg, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(400, 310))
    assert said(service.diagnose(file, DICOM)) == said(service.diagnose(jpeg))


def test_who_the_picture_is_of_is_neither_answered_nor_logged(service, pixels, caplog):
    def fill(dataset: Dataset) -> None:
        dataset.PatientID = dataset.PatientAddress = "Elm-Street-13"
        dataset.PatientBirthDate = "19700101"

    caplog.set_level(logging.DEBUG)
    good = dicom_file(pixels, edit=fill)
    bad = (good[:-9], dicom_file(pixels, Rows=5, edit=fill), dicom_file(pixels, NumberOfFrames=3, edit=fill))
    answers = [service.diagnose(content, DICOM) for content in (good, *bad)]
    assert [answer.status_code for answer in answers] == [200, 400, 400, 415]
    told = caplog.text + "".join(answer.text for answer in answers)
    assert not [secret for secret in (PATIENT, "Doe", "Elm", "19700101") if secret in told]


def hostile(pixels):
    """A name, the bytes, the type declared, and the status."""
    good, png, jpeg = dicom_file(pixels), saved(pixels), saved(pixels, "JPEG")
    yield "a CT", dicom_file(pixels, SOPClassUID=uid.CTImageStorage), DICOM, 415
    yield "two frames", dicom_file(pixels, NumberOfFrames=2), DICOM, 415
    yield "JPEG 2000", dicom_file(jpeg, syntax=uid.JPEG2000, size=(40, 31)), DICOM, 415
    yield "a file declared as JPEG", good, "image/jpeg", 415
    yield "a JPEG declared as a file", jpeg, DICOM, 415
    yield "text", b"hello", DICOM, 400
    yield "nothing", b"", DICOM, 400
    yield "no preamble", good[128:], DICOM, 400
    yield "a program in the preamble", b"MZ" + bytes(126) + good[128:], DICOM, 415
    yield "a picture in the preamble", png[:100] + bytes(28) + good[128:], "image/png", 400
    yield "a JPEG with a file in it", jpeg[:128] + good[128:], "image/jpeg", 400
    yield "an archive behind", good + b"PK\5\6" + bytes(18), DICOM, 400
    yield "billions of pixels", dicom_file(pixels, Rows=65_000, Columns=65_000), DICOM, 413
    head = good[: 144 + int.from_bytes(good[140:144], "little")]
    deep = b"\x08\0\0\1SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\xff\xff\xff\xff" * 100_000
    yield "sequences without end", head + deep, DICOM, 415
    many = b"\x08\0\0\1SQ\0\0\xff\xff\xff\xff" + b"\xfe\xff\0\xe0\0\0\0\0" * 2_000_000
    yield "items without end", head + many, DICOM, 413
    deflate = zlib.compressobj(9, wbits=-15)
    whole = dicom_file(pixels, syntax=uid.DeflatedExplicitVRLittleEndian)
    bomb = deflate.compress(b"\x09\0\x01\0OB\0\0\0\0\0\x10" + bytes(2**28)) + deflate.flush()
    yield "a bomb", whole[: 144 + int.from_bytes(whole[140:144], "little")] + bomb, DICOM, 413
    for share in (0.1, 0.5, 0.9, 0.99):
        yield f"a file cut at {share}", good[: int(share * len(good))], DICOM, 400


def test_what_nobody_should_send_is_answered_with_a_problem(service, problem, pixels):
    for name, content, kind, status in hostile(pixels):
        answer = service.diagnose(content, kind)
        assert answer.status_code == status, (name, answer.status_code, answer.text)
        problem(answer, status)
    assert service.diagnose(dicom_file(pixels), DICOM).status_code == 200


def test_without_the_extra_it_says_what_to_install(
    places, registry, bundle, promote, serve, problem, pixels, monkeypatch
):
    promote(registry, bundle())
    hidden = f"import sys; sys.modules['pydicom'] = None; {PROGRAM}"
    monkeypatch.setattr("serving.decoding.template.PROGRAM", hidden)
    monkeypatch.setattr("serving.decoding.decoders.Template", Template)
    with serve() as service:
        assert "dermfed[dicom]" in problem(service.diagnose(dicom_file(pixels), DICOM), 415)["detail"]
        assert service.diagnose().status_code == 200
