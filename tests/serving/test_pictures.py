"""DICOM files and colour profiles, over HTTP."""

import logging
import re
import zlib

import numpy as np
import pytest
from PIL import Image
from pydicom import uid
from pydicom.dataset import Dataset

from serving.decoding.template import PROGRAM, Template
from tests import colour_profiles
from tests.dicom_files import PATIENT, dicom_file, saved
from tests.serving.conftest import paint

DICOM = "application/dicom"
PIXELS = np.asarray(paint(size=(40, 31)))
GOOD, PNG, JPEG = dicom_file(PIXELS), saved(PIXELS), saved(PIXELS, "JPEG")


def lasting(answer):
    """A diagnosis without what is new in every answer."""
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if name not in ("id", "created")}


@pytest.mark.parametrize(
    ("file", "picture", "kind"),
    [
        pytest.param(dicom_file(PIXELS, syntax=uid.ImplicitVRLittleEndian), PNG, "image/png", id="implicit"),
        pytest.param(
            dicom_file(PIXELS, syntax=uid.DeflatedExplicitVRLittleEndian), PNG, "image/png", id="deflated"
        ),
        pytest.param(
            dicom_file(JPEG, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(40, 31)),
            JPEG,
            "image/jpeg",
            id="JPEG",
        ),
    ],
)
def test_a_file_is_answered_as_its_picture(service, file, picture, kind):
    tone = {"params": {"skin_tone": "V"}}
    assert lasting(service.diagnose(file, DICOM, **tone)) == lasting(service.diagnose(picture, kind, **tone))


def test_the_patient_in_a_file_is_neither_answered_nor_logged(service, caplog):
    def fill(dataset: Dataset) -> None:
        dataset.PatientID = dataset.PatientAddress = "Elm-Street-13"
        dataset.PatientBirthDate = "19700101"

    caplog.set_level(logging.DEBUG)
    good = dicom_file(PIXELS, edit=fill)
    bad = (good[:-9], dicom_file(PIXELS, Rows=5, edit=fill), dicom_file(PIXELS, NumberOfFrames=3, edit=fill))
    answers = [service.diagnose(content, DICOM) for content in (good, *bad)]
    assert [answer.status_code for answer in answers] == [200, 400, 400, 415]
    said = caplog.text + "".join(answer.text for answer in answers)
    assert not [secret for secret in (PATIENT, "Doe", "Elm", "19700101") if secret in said]


def head(file):
    """The preamble and the group of the file's own description."""
    return file[: 144 + int.from_bytes(file[140:144], "little")]


def bomb():
    deflate = zlib.compressobj(9, wbits=-15)
    inflated = b"\x09\0\x01\0OB\0\0\0\0\0\x10" + bytes(2**28)
    return (
        head(dicom_file(PIXELS, syntax=uid.DeflatedExplicitVRLittleEndian))
        + deflate.compress(inflated)
        + deflate.flush()
    )


SEQUENCE, ITEM = b"\x08\0\0\1SQ\0\0\xff\xff\xff\xff", b"\xfe\xff\0\xe0"
HOSTILE = {
    "a CT": (lambda: dicom_file(PIXELS, SOPClassUID=uid.CTImageStorage), DICOM, 415),
    "two frames": (lambda: dicom_file(PIXELS, NumberOfFrames=2), DICOM, 415),
    "a JPEG as JPEG 2000": (lambda: dicom_file(JPEG, syntax=uid.JPEG2000, size=(40, 31)), DICOM, 400),
    "big endian": (lambda: GOOD.replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.2\0"), DICOM, 415),
    "a file declared as JPEG": (lambda: GOOD, "image/jpeg", 415),
    "a JPEG declared as a file": (lambda: JPEG, DICOM, 415),
    "nothing": (lambda: b"", DICOM, 400),
    "no preamble": (lambda: GOOD[128:], DICOM, 400),
    "a picture in the preamble": (lambda: PNG[:100] + bytes(28) + GOOD[128:], "image/png", 400),
    "a JPEG with a file in it": (lambda: JPEG[:128] + GOOD[128:], "image/jpeg", 400),
    "an archive behind": (lambda: GOOD + b"PK\5\6" + bytes(18), DICOM, 400),
    "billions of pixels": (lambda: dicom_file(PIXELS, Rows=65_000, Columns=65_000), DICOM, 413),
    "sequences without end": (lambda: head(GOOD) + (SEQUENCE + ITEM + b"\xff" * 4) * 100_000, DICOM, 415),
    "items without end": (lambda: head(GOOD) + SEQUENCE + (ITEM + bytes(4)) * 2_000_000, DICOM, 413),
    "a bomb": (bomb, DICOM, 413),
    "a file cut in its head": (lambda: GOOD[: len(GOOD) // 10], DICOM, 400),
    "a file cut in its pixels": (lambda: GOOD[: len(GOOD) * 99 // 100], DICOM, 400),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_answered_with_a_problem(service, problem, name):
    draw, kind, status = HOSTILE[name]
    problem(service.diagnose(draw(), kind), status)
    assert service.diagnose(GOOD, DICOM).status_code == 200


def test_without_the_extra_it_says_what_to_install(registry, bundle, promote, serve, problem, monkeypatch):
    promote(registry, bundle())
    hidden = f"import sys; sys.modules['pydicom'] = None; {PROGRAM}"
    monkeypatch.setattr("serving.decoding.template.PROGRAM", hidden)
    monkeypatch.setattr("serving.decoding.decoders.Template", Template)
    with serve() as service:
        assert "dermfed[dicom]" in problem(service.diagnose(GOOD, DICOM), 415)["detail"]
        assert service.diagnose().status_code == 200


P3 = colour_profiles.display_p3()
# One colour, as sRGB has it and as a phone does.
SKIN, SKIN_IN_P3 = (Image.new("RGB", (40, 30), colour) for colour in ((213, 115, 83), (200, 120, 90)))


def probabilities(answer):
    findings = lasting(answer)["findings"]
    return [one["probability"] for one in sorted(findings, key=lambda one: one["code"])]


def test_a_phones_picture_is_answered_as_the_same_colours_in_srgb(service):
    expected = pytest.approx(probabilities(service.diagnose(saved(SKIN), "image/png")), abs=0.01)
    phone = service.diagnose(saved(SKIN_IN_P3, icc_profile=P3), "image/png")
    assert probabilities(phone) == expected
    assert phone.json()["quality"] == {"acceptable": True, "issues": []}
    bare = service.diagnose(saved(SKIN_IN_P3), "image/png")
    assert probabilities(bare) != expected


THREE = [np.asarray(paint(colour, size=(40, 31))) for colour in ((200, 90, 30), (90, 160, 40), (60, 60, 200))]
SEVERAL = dicom_file(b"".join(one.tobytes() for one in THREE), size=(40, 31), NumberOfFrames=3)


@pytest.mark.parametrize("frame", [1, 2, 3])
def test_a_frame_is_answered_as_its_picture(service, frame):
    answer = service.diagnose(SEVERAL, DICOM, params={"frame": frame})
    assert lasting(answer) == lasting(service.diagnose(saved(THREE[frame - 1]), "image/png"))
    form = service.form({"frame": str(frame)}, files={"image": ("a.dcm", SEVERAL, DICOM)})
    assert lasting(form) == lasting(answer)


@pytest.mark.parametrize(
    ("content", "kind", "frame", "status", "said"),
    [
        (SEVERAL, DICOM, None, 415, "holds 3 frames; name the one"),
        (SEVERAL, DICOM, "4", 415, "it holds 3"),
        (SEVERAL, DICOM, "0", 422, "a whole number from 1 on"),
        (SEVERAL, DICOM, "last", 422, "a whole number from 1 on"),
        (SEVERAL, DICOM, "all", 422, "takes one picture|takes pictures without"),
        (GOOD, DICOM, "2", 415, "it holds 1"),
        (PNG, "image/png", "2", 422, "no picture that was sent holds several"),
    ],
)
def test_a_frame_that_is_not_there_is_refused(service, problem, content, kind, frame, status, said):
    params = {} if frame is None else {"frame": frame}
    assert re.search(said, problem(service.diagnose(content, kind, params=params), status)["detail"])


def test_the_first_frame_of_a_picture_is_the_picture(service):
    for content, kind in ((GOOD, DICOM), (PNG, "image/png")):
        one = service.diagnose(content, kind, params={"frame": "1"})
        assert lasting(one) == lasting(service.diagnose(content, kind))


def test_a_file_with_texts_in_its_pixels_is_refused_or_answered_with_a_warning(
    service, serve, problem, registry, bundle, promote
):
    """Attack: a picture that shows the patient's name. Control: the same file that says it has none."""
    named = dicom_file(PIXELS, BurnedInAnnotation="YES")
    refused = problem(service.diagnose(named, DICOM), 422)
    assert (refused["type"], "texts are burned" in refused["detail"]) == (
        "urn:dermfed:problem:burned-in",
        True,
    )
    promote(registry, bundle())
    with serve(burned_in=True) as taking:
        plain = lasting(taking.diagnose(dicom_file(PIXELS, BurnedInAnnotation="NO"), DICOM))
        taken = lasting(taking.diagnose(named, DICOM))
    (warning,) = [one for one in taken["warnings"] if "burned into the picture" in one]
    assert {**taken, "warnings": [one for one in taken["warnings"] if one != warning]} == plain


def test_a_damaged_profile_is_an_issue_and_changes_no_answer(service):
    bare = lasting(service.diagnose(saved(SKIN), "image/png"))
    damaged = lasting(service.diagnose(saved(SKIN, icc_profile=P3[:200]), "image/png"))
    (issue,) = damaged["quality"]["issues"]
    assert issue.startswith(
        "The colours of the picture are not known: it has a colour profile that cannot be used: it is"
    )
    assert {**damaged, "quality": bare["quality"]} == bare
