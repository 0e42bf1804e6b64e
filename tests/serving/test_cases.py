"""A model that takes cases, served: what may be sent, what is answered, and that nothing of it is kept."""

import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from pydicom import uid

from registry.bundle.cases import SEX, SITE, NumberFact
from registry.bundle.errors import GraphError
from registry.bundle.pictures.rule import decode_picture
from registry.records import Version
from registry.releases.rollout import Share
from serving.inference.batcher import run_batch
from serving.inference.predictor import LoadedVersion
from serving.releases.loading import warm_up
from tests.case_bundles import CASE, PATTERNS, case_bundle, case_logits, softmax
from tests.dicom_files import dicom_file, noise, saved
from tests.serving.conftest import Places, encode, paint, release, running

CLOSE, DERM = (encode(paint(colour), "PNG") for colour in ((200, 90, 30), (90, 160, 40)))
FACTS = {"age": "70", "sex": "male", "site": "back"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    places = Places(tmp_path_factory.mktemp("cases"))
    with places.open() as registry:
        release(registry, case_bundle())
    with running(places.open) as started:
        yield started


def files(**named):
    return [
        (name, ("a.png", content, "image/png"))
        for name, contents in named.items()
        for content in (contents if isinstance(contents, list) else [contents])
    ]


def probabilities(answer):
    assert answer.status_code == 200, answer.text
    found = {finding["code"]: finding["probability"] for finding in answer.json()["findings"]}
    return [found[code] for code in ("MEL", "NV", "AK")]


def expected(pictures, context=(np.nan, np.nan, np.nan)):
    rule = case_bundle().manifest.picture
    pixels = [(decode_picture(content, rule), kind) for content, kind in pictures]
    return pytest.approx(softmax(case_logits(pixels, np.array(context))).tolist(), abs=1e-5)


def test_a_case_is_answered_by_its_pictures_kinds_and_facts(service):
    answer = service.form(FACTS, files=files(close_up=CLOSE, dermoscopic=DERM))
    assert probabilities(answer) == expected([(CLOSE, 1), (DERM, 2)], (70, 1, 1))
    said = answer.json()
    assert said["inputs"] == {
        "pictures": ["close-up", "dermoscopic"],
        "facts": {"age": "70", "sex": "male", "site": "trunk"},
        "pattern": "close-up+dermoscopic+context",
        "promised": True,
    }
    assert "would_help" not in said
    assert said["prediction_set"]["calibration_n"] == 90
    assert not any("promises nothing" in one for one in said["warnings"])


def test_each_frame_of_a_file_is_a_picture_of_the_lesion(service):
    frames = [noise(20, 24, 3, seed=seed) for seed in range(2)]
    whole = dicom_file(b"".join(one.tobytes() for one in frames), size=(24, 20), NumberOfFrames=2)
    answer = service.form({"frame": "all"}, files=[("close_up", ("a.dcm", whole, "application/dicom"))])
    both = service.form({}, files=files(close_up=[saved(one) for one in frames]))
    assert probabilities(answer) == probabilities(both)
    assert answer.json()["inputs"]["pictures"] == ["close-up", "close-up"]
    assert answer.json()["warnings"] == both.json()["warnings"]
    many = dicom_file(bytes(9 * 20 * 24 * 3), size=(24, 20), NumberOfFrames=9)
    refused = service.form({"frame": "all"}, files=[("close_up", ("a.dcm", many, "application/dicom"))])
    assert (refused.status_code, "more than 8 frames" in refused.json()["detail"]) == (422, True)


def test_a_file_that_claims_billions_of_frames_is_refused_before_any_is_listed(service):
    """Attack: one compressed frame, and a number of frames that no memory holds. Control: frame 1 is read."""
    wavelets = saved(noise(20, 24, 3), "JPEG2000", no_jp2=True)
    claims = {"size": (24, 20), "NumberOfFrames": 2_000_000_000}
    whole = dicom_file([wavelets, wavelets], "YBR_RCT", uid.JPEG2000Lossless, **claims)
    parts = [("close_up", ("a.dcm", whole, "application/dicom"))]
    assert service.form({"frame": "1"}, files=parts).status_code == 200
    refused = service.form({"frame": "all"}, files=parts)
    assert (refused.status_code, "more than 8 frames" in refused.json()["detail"]) == (422, True)


def test_the_rules_are_those_of_what_was_given(service):
    said = service.form({"age": "70"}, files=files(close_up=CLOSE)).json()
    rules = case_bundle().manifest.rules_of(PATTERNS[1].pattern)
    assert said["inputs"]["pattern"] == rules.pattern.name == "close-up+some context"
    assert said["would_help"] == [
        {"missing": ["dermoscopic"], "fewer_classes": 0.6, "more_reported": 0.2},
        {"missing": ["sex", "site"], "fewer_classes": 0.2, "more_reported": 0.05},
    ]


def test_a_picture_of_unknown_kind_is_promised_nothing(service):
    answer = service.diagnose(CLOSE, "image/png")
    assert probabilities(answer) == expected([(CLOSE, 0)])
    said = answer.json()
    assert said["inputs"] == {"pictures": ["unknown"], "facts": {}, "pattern": "unknown", "promised": False}
    assert said["prediction_set"]["guarantee"] == "none"
    assert len(said["prediction_set"]["codes"]) == 3
    assert any("not calibrated on unknown pictures without facts" in one for one in said["warnings"])
    form = service.form({"age": "", "sex": "unknown"}, files=files(image=CLOSE))
    assert form.json()["inputs"] == said["inputs"]


def test_a_kind_may_have_several_pictures_and_a_browser_may_leave_fields_empty(service):
    parts = [
        *((b'name="close_up"; filename="a.png"\r\nContent-Type: image/png', one) for one in (CLOSE, DERM)),
        (b'name="dermoscopic"; filename=""\r\nContent-Type: application/octet-stream', b""),
        (b'name="overview"', b""),
        (b'name="age"', b""),
    ]
    body = b"".join(
        b"--B\r\nContent-Disposition: form-data; " + head + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    )
    answer = service.diagnose(body + b"--B--\r\n", "multipart/form-data; boundary=B")
    assert probabilities(answer) == expected([(CLOSE, 1), (DERM, 1)])
    assert answer.json()["inputs"]["pictures"] == ["close-up", "close-up"]


TWO_AGES = [*files(close_up=CLOSE), ("age", (None, "70")), ("age", (None, "71"))]
DERMOSCOPIC = dicom_file(noise(20, 30, 3), SOPClassUID=uid.DermoscopicPhotographyImageStorage)


@pytest.mark.parametrize(
    ("fields", "sent", "status", "said"),
    [
        pytest.param({}, TWO_AGES, 422, "`age` is given twice", id="two ages"),
        pytest.param(
            {"age": "old"}, files(close_up=CLOSE), 422, "age 'old' is no number", id="an age in words"
        ),
        pytest.param({}, files(close_up=[CLOSE] * 4), 422, "this model takes 1 to 3", id="four pictures"),
        pytest.param({}, files(closeup=CLOSE), 422, "there is no file `closeup`", id="another kind"),
        pytest.param({"age": "70"}, [("close_up", (None, ""))], 422, "holds no file", id="no picture"),
        pytest.param(
            {"dermoscopic": "x"},
            files(close_up=CLOSE),
            422,
            "no file `dermoscopic`",
            id="a text for a picture",
        ),
        pytest.param(
            {"image_kind": "close-up"},
            files(dermoscopic=DERM),
            422,
            "there is none",
            id="a kind of no picture",
        ),
        pytest.param(
            {}, files(close_up=CLOSE, dermoscopic=b"x"), 400, "no picture", id="a second that is none"
        ),
        pytest.param(
            {},
            [("close_up", ("a.dcm", DERMOSCOPIC, "application/dicom"))],
            422,
            "picture 1 was given as close-up, and the DICOM file says",
            id="a kind other than the DICOM file says",
        ),
    ],
)
def test_what_the_model_does_not_take_is_refused(service, problem, fields, sent, status, said):
    assert said in problem(service.form(fields, files=sent), status)["detail"]


def test_a_fact_is_no_part_of_an_address(service, problem):
    answer = service.diagnose(CLOSE, "image/png", params={"age": "70"})
    assert "an address would leave in logs" in problem(answer, 422)["detail"]


def test_a_model_of_single_pictures_says_that_it_is_one(serve, registry, promote, bundle, problem):
    promote(registry, bundle())
    with serve() as service:
        answer = service.form({"age": ""}, files=files(image=CLOSE))
        assert not {"inputs", "would_help"} & set(answer.json())
        for refused in (
            service.form({}, files=files(close_up=CLOSE)),
            service.form({}, files=files(image=[CLOSE, DERM])),
            service.form({"age": "70"}, files=files(image=CLOSE)),
            service.diagnose(CLOSE, "image/png", params={"image_kind": "close-up"}),
        ):
            assert "this model takes one picture" in problem(refused, 422)["detail"]
        (version,) = service.client.get("/v1/models").json()["models"][0]["versions"]
        assert not {"case", "patterns"} & set(version)


@pytest.mark.parametrize(("second", "warned"), [(CLOSE, True), (DERM, False)], ids=["same", "control"])
def test_one_file_as_two_pictures_is_a_warning(service, second, warned):
    warnings = service.form({}, files=files(close_up=CLOSE, dermoscopic=second)).json()["warnings"]
    assert any("one and the same file" in one for one in warnings) is warned


def test_every_picture_has_to_be_good_and_the_bad_one_is_named(service):
    small = encode(paint(size=(4, 4)), "PNG")
    said = service.form({}, files=files(close_up=CLOSE, dermoscopic=small)).json()
    assert (said["decision"], said["reasons"][0]["code"]) == ("retake", "too-small")
    (issue,) = said["quality"]["issues"]
    assert issue.startswith("Picture 2 (dermoscopic): ")


def test_a_dicom_file_says_that_it_is_dermoscopic(service):
    sent = [("image", ("a", one, "application/dicom")) for one in (dicom_file(noise(20, 30, 3)), DERMOSCOPIC)]
    assert service.form({}, files=sent).json()["inputs"]["pictures"] == ["unknown", "dermoscopic"]


def test_cases_in_one_batch_get_the_answers_that_each_gets_alone(serve, registry, promote, monkeypatch):
    def slowly(graph, questions):
        time.sleep(0.02)  # others are decoded meanwhile
        return run_batch(graph, questions)

    monkeypatch.setattr("serving.inference.batcher.run_batch", slowly)
    promote(registry, case_bundle())
    sent = [
        (FACTS, files(close_up=CLOSE, dermoscopic=DERM)),
        ({}, files(image=DERM)),
        ({"age": "30"}, files(close_up=[DERM, CLOSE], dermoscopic=CLOSE)),
        ({}, files(dermoscopic=DERM)),
    ]
    with serve(threads=1, max_batch=8) as service, ThreadPoolExecutor(24) as threads:

        def ask(case):
            return probabilities(service.form(case[0], files=case[1]))

        alone = list(map(ask, sent))
        together = list(threads.map(ask, sent * 6))
        metrics = service.client.get("/metrics").text
    assert together == [pytest.approx(one, abs=1e-6) for one in alone * 6]
    runs = float(re.search(r"^dermfed_batch_size_count(?:\{.*\})? (\S+)$", metrics, re.M)[1])
    assert runs < 28


DISTINCTIVE = {"age": "83.0625", "site": "palms/soles", "sex": "male"}
TRACES = ("83.0625", "palms", "male", "70.7707", "tail-of-a-cat")


def test_no_fact_is_left_anywhere(serve, registry, promote, tmp_path, caplog):
    """The attack: distinctive facts are sent, and then looked for in all that is kept."""
    records = tmp_path / "records"
    promote(registry, case_bundle())
    young = NumberFact(name="age", low=0, high=80)  # so that its refusal would quote an age
    candidate = case_bundle(case=CASE.model_copy(update={"facts": (young, SEX, SITE)}), seed=2)
    (version,) = registry.add([candidate])
    override = {"reason": "test", "override_gates": True}
    registry.promote(
        "skin-lesion", [version.number], to="production", **override, share=Share(1.0, mirror=True)
    )
    both = files(close_up=CLOSE, dermoscopic=DERM)
    with caplog.at_level(logging.DEBUG), serve(records=records, records_picture_hash=True) as service:
        answers = [
            service.form(DISTINCTIVE, files=both),
            service.form({"sex": "male"}, files=files(close_up=CLOSE)),
            service.form({"age": "70.7707x"}, files=both),
            service.form({"site": "tail-of-a-cat"}, files=both),
            service.diagnose(CLOSE, "image/png", params={"age": "70.7707"}),
            service.client.post("/", data=DISTINCTIVE, files=both, headers={"Accept": "text/html"}),
        ]
        assert [one.status_code for one in answers] == [200, 200, 422, 422, 422, 200]
        assert answers[0].json()["inputs"]["facts"]["age"] == "83.0625"

        def compared(fields, found):
            answer = service.form(fields, files=both)
            return answer.status_code == 200 and found in service.client.get("/metrics").text

        # Once the candidate has been loaded:
        service.eventually(lambda: compared(DISTINCTIVE, "not-taken"))
        service.eventually(lambda: compared({"sex": "male"}, "dermfed_shadow_comparisons_total{"))
        shown = [service.client.get(path).text for path in ("/metrics", "/operator", "/readyz")]
    ours = [one for one in caplog.records if not one.name.startswith(("httpx", "httpcore", "uvicorn.access"))]
    logged = [one.getMessage() + str(one.exc_text or "") for one in ours]
    lines = [path.read_text() for path in records.rglob("*.jsonl")]
    assert sum(line.count('"pictures":["sha256:') for line in lines) > 2
    kept = "\n".join([*logged, *lines, *shown]).lower()
    assert [trace for trace in TRACES if re.search(rf"(?<![a-z]){re.escape(trace)}(?![a-z])", kept)] == []
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and b"83.0625" in path.read_bytes()]
    assert holding == []


@pytest.mark.parametrize("broken", [False, True], ids=["control", "broken"])
def test_a_model_that_breaks_on_a_kind_of_picture_is_found_before_it_serves(broken):
    drawn = case_bundle()
    if broken:
        model = onnx.load_from_string(drawn.model)
        (scale,) = [one for one in model.graph.initializer if one.name == "by_kind"]
        scale.CopyFrom(numpy_helper.from_array(np.array([1, 1, np.inf], np.float32), "by_kind"))
        drawn = replace(drawn, model=model.SerializeToString())
    version = Version("skin-lesion", 1, drawn.digest, drawn.manifest.subgroup, datetime.now(UTC))
    loaded = LoadedVersion.of(version, drawn)
    with pytest.raises(GraphError) if broken else nullcontext():
        warm_up(loaded)
