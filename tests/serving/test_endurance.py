"""Requests that have ended leave nothing behind; `benchmarks/endurance.py` is the long form."""

import asyncio
import gc
from collections import Counter

import pytest

from serving.access.admission import Admitted
from serving.http.upload import Upload
from serving.inference.batcher import _Picture
from serving.inference.predictor import Decoded

KINDS = (Admitted, _Picture, Decoded, Upload, asyncio.Task, asyncio.TimerHandle, asyncio.Future)


def alive():
    """How many there are of what a request is made of."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in KINDS)


@pytest.fixture
def kept(serve, registry, promote, bundle):
    """A service of its own, that nobody else asks."""
    promote(registry, bundle())
    with serve() as started:
        yield started


def test_nothing_is_left_of_requests_whatever_became_of_them(kept, picture):
    good = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}

    def ask():
        for form, kind in good.items():
            assert kept.diagnose(picture(form), kind).status_code == 200
            assert kept.form({}, {"image": ("a", picture(form), kind)}).status_code == 200
        assert kept.diagnose(picture("PNG")[:60], "image/png").status_code == 400
        assert kept.diagnose(params={"top": "0"}).status_code == 422
        assert kept.client.get("/nothing").status_code == 404

    for _ in range(3):
        ask()
    before = alive()
    for _ in range(15):
        ask()
    after = alive()
    # What a kept connection and the registry's thread need comes and goes, and asyncio keeps up to a hundred
    # timers that were cancelled; a leak would be 135 of a kind.
    most = {"TimerHandle": 110}
    assert {
        kind: n - before[kind] for kind, n in after.items() if n - before[kind] > most.get(kind, 10)
    } == {}
