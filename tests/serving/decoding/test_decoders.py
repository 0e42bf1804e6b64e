"""Pictures through the decoders: the same pixels as anywhere, and what becomes of costly ones."""

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from PIL import Image

from registry.bundle.errors import DamagedPicture, PictureError
from registry.bundle.pictures.rule import PictureRule, decode_picture
from serving.decoding import messages
from serving.decoding.decoders import LEAST, OFTEN, OWN
from serving.decoding.messages import PIXELS
from serving.decoding.template import NoTemplateError, Template
from serving.metrics import Metrics
from serving.protocol.problems import NoDecoder, PictureTooCostly
from serving.settings import DECODE_SHARE
from tests.serving.decoding.conftest import MEGABYTE, RULE, SOUND, sound
from tests.serving.hostile.apart import held
from tests.serving.hostile.archived import archived
from tests.serving.hostile.corpus import corpus
from tests.serving.hostile.costly import dicom_scan_bomb, memory_bomb, scan_bomb
from tests.serving.hostile.piece import encoded, pixels
from tests.serving.hostile.real import real_pictures


def result(decode):
    try:
        return decode().tobytes()
    except PictureError as error:
        return type(error)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_every_picture_comes_out_as_in_this_process(decoders):
    pool = decoders()
    for one in corpus()[1::4]:
        here = result(lambda one=one: decode_picture(one.content, RULE))
        assert result(lambda one=one: pool.decode(one.content, RULE).pixels) == here, one.name
    for content in archived():
        assert (pool.decode(content, RULE).pixels == decode_picture(content, RULE)).all()


@pytest.mark.real
def test_real_pictures_come_out_to_the_last_bit(decoders):
    if not os.environ.get("DERMFED_DATA"):
        pytest.skip("DERMFED_DATA names no folder with pictures")
    pool, rule = decoders(), PictureRule(size=64)
    for content in real_pictures(20):
        assert (pool.decode(content, rule).pixels == decode_picture(content, rule)).all()


def test_a_file_as_large_as_a_body_may_be_comes_whole(decoders):
    whole = SOUND + bytes(2 * PIXELS - len(SOUND))  # phones append films
    found = decoders(max_bytes=len(whole)).decode(whole, RULE)
    assert (found.pixels == decode_picture(SOUND, RULE)).all()


def test_the_largest_rule_fits(decoders):
    assert decoders().decode(SOUND, PictureRule(size=2048)).pixels.shape == (2048, 2048, 3)


@pytest.mark.parametrize(
    ("bomb", "memory", "seconds", "reason", "why"),
    [
        pytest.param(
            encoded(Image.new("RGB", (6000, 6000)), "PNG"),
            *(132, 60.0, "memory", "more memory than the 100 MiB"),
            id="a black PNG takes memory",
        ),
        pytest.param(
            memory_bomb(),
            *(2048, 0.05, "time", "longer than 0.05 seconds of a core"),
            id="a lossless WebP takes time by the clock",
        ),
        pytest.param(
            scan_bomb(88),
            *(2048, 0.9, "time", "longer than 0.9 seconds of a core"),
            id="a JPEG of many scans takes time of a core",
        ),
    ],
)
def test_one_that_takes_more_than_there_is_is_refused_and_the_next_is_decoded(
    decoders, monkeypatch, bomb, memory, seconds, reason, why
):
    if seconds == 0.9:  # of a core, and none by the clock
        monkeypatch.setattr("serving.decoding.template.WALL", 1000)
    metrics = Metrics()
    pool = decoders(metrics, decode_memory=memory * MEGABYTE)
    pool.seconds = seconds
    with pytest.raises(PictureTooCostly, match=why):
        pool.decode(bomb, RULE)
    assert not pool._decoders  # another takes its place
    pool.seconds = 60.0
    assert sound(pool)
    assert f'dermfed_decoders_killed_total{{reason="{reason}"}} 1.0'.encode() in metrics.render()


def test_a_decoder_that_often_ends_is_a_health_issue(decoders):
    pool = decoders(metrics=(metrics := Metrics()))

    for number in range(OFTEN):
        assert bool(pool.health_issues) == (number >= OFTEN)
        assert "ended the decoder" in str(pool._too_costly("crash", SOUND))
    assert "somebody may send pictures" in pool.health_issues[0]
    assert b'dermfed_decoders_killed_total{reason="crash"} 10.0' in metrics.render()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        pytest.param(
            "Template.fork", NoTemplateError(11, "none can be forked"), id="no process can be forked"
        ),
        pytest.param(
            "os.memfd_create", OSError(24, "Too many open files"), id="no file is left for its memory"
        ),
        pytest.param("socket.socketpair", OSError(24, "Too many open files"), id="nor for its socket"),
    ],
)
def test_where_a_decoder_cannot_be_had_it_is_to_be_asked_again(decoders, monkeypatch, call, error):
    def fail(*_, **__):
        raise error

    pool = decoders()
    with monkeypatch.context() as patch:
        patch.setattr(f"serving.decoding.template.{call}", fail)
        with pytest.raises(NoDecoder) as caught:
            pool.decode(SOUND, RULE)
    assert caught.value.headers == {"Retry-After": "5"}
    assert sound(pool)


@pytest.mark.long
@pytest.mark.parametrize("gibibytes", [1, 4])
def test_all_decoders_together_hold_no_more_than_they_are_given(decoders, gibibytes):
    """As with `--memory=1g` and `4g`: lossless WebP of every size, on two threads."""
    given, template = int(DECODE_SHARE * gibibytes * 2**30), Template()
    pool = decoders(template=template, threads=2, decode_memory=given)
    bombs = [memory_bomb(side) for side in (1000, 2000, 3000, 4000, 5000, 6000, 7000)]
    pool.decode(SOUND, RULE)
    process = psutil.Process(template._process.pid)

    def decode():
        found = []
        for bomb in bombs:
            try:
                found.append(pool.decode(bomb, RULE).answer.width)
            except (DamagedPicture, PictureTooCostly):
                found.append(0)
        return found

    most = 0
    with ThreadPoolExecutor() as asking:
        asked = [asking.submit(decode) for _ in range(4)]
        while not all(one.done() for one in asked):
            most = max(most, sum(held(one.pid) for one in process.children()))
    pool.close()
    template.close()
    assert max(asked[0].result()) >= (3000 if gibibytes == 1 else 5000)
    assert 50 * 2**20 < most < given


def test_the_memory_is_divided_among_all_workers(decoders):
    assert decoders(decode_memory=10 * 2**30, workers=2, threads=4).memory == 2**30 - OWN
    few = decoders(decode_memory=2**30, workers=1, threads=16)
    assert few.memory == LEAST - OWN
    assert sound(few)


def test_a_decoder_that_the_service_ends_is_not_counted_as_killed_by_a_picture(decoders):
    metrics = Metrics()
    pool = decoders(metrics)
    begun = threading.Event()
    take = pool._take

    def taken():
        decoder = take()
        begun.set()
        return decoder

    pool._take = taken
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(pool.decode, memory_bomb(7000), RULE)
        assert begun.wait(60)
        pool.close()
        with contextlib.suppress(PictureTooCostly):
            asked.result()  # it may just have been done
    assert b"dermfed_decoders_killed_total{" not in metrics.render()


@pytest.fixture
def one_thread(registry, promote, bundle, serve):
    """A service with one thread."""
    promote(registry, bundle())
    return lambda **settings: serve(**{"threads": 1, "requests_per_minute": 0, **settings})


def test_bombs_are_refused_with_the_reason(one_thread, problem, monkeypatch):
    with one_thread(decode_memory=200 * 2**20, decode_seconds=1) as service:
        with monkeypatch.context() as patch:
            patch.setattr("serving.decoding.template.WALL", 0.1)  # of the seconds, by the clock
            for bomb, kind in (
                (scan_bomb(side=3000), "image/jpeg"),
                (dicom_scan_bomb(side=3000), "application/dicom"),
            ):
                assert "longer than 1 seconds" in problem(service.diagnose(bomb, kind), 413)["detail"]
        black = encoded(Image.new("RGB", (7000, 7000)), "PNG")
        said = problem(service.diagnose(black, "image/png"), 413)
        assert said["type"] == "urn:dermfed:problem:too-costly"
        assert "send a smaller copy" in said["detail"].lower()
        problem(service.diagnose(memory_bomb(), "image/webp"), 400)
        assert service.diagnose().status_code == 200


def test_nothing_is_decoded_by_the_service_itself(one_thread, monkeypatch):
    def never(*arguments):
        raise AssertionError("decoded in the service's own process")

    monkeypatch.setattr(messages, "decode_opened", never)
    monkeypatch.setattr(messages, "open_picture", never)
    with one_thread() as service:
        for form in ("JPEG", "PNG", "WEBP"):
            assert service.diagnose(encoded(pixels(), form), f"image/{form.lower()}").status_code == 200
