"""The parts of a service: they begin and end with it, and nothing of a request is left in them."""

import asyncio
import gc
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import httpx
import pytest

from serving.admission import Admission, Admitted
from serving.decoding.decoders import Decoders
from serving.http.app import build_app
from serving.http.upload import Upload
from serving.inference.batcher import _Picture
from serving.inference.predictor import Decoded
from serving.metrics import Metrics
from serving.settings import ServeSettings
from serving.state import changed_cores, running

SOURCES = list((Path(__file__).parents[2] / "serving").rglob("*.py"))
KINDS = (Admitted, _Picture, Decoded, Upload, asyncio.Task, asyncio.TimerHandle, asyncio.Future)


def test_where_the_registry_cannot_be_opened_no_part_goes_on(monkeypatch):
    closed = []
    monkeypatch.setattr(Decoders, "close", lambda self: closed.append(self))
    metrics = Metrics()

    def no_registry():
        raise OSError("there is none")

    async def run():
        settings = ServeSettings(records=None)
        async with running(settings, metrics, Admission(1, 1.0, metrics), no_registry):
            raise AssertionError("it began")

    with pytest.raises(OSError, match="there is none"):
        anyio.run(run)
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("settings", "reported"), [({}, True), ({"threads": 2}, False)], ids=["by default", "set"]
)
def test_a_quota_that_changes_while_the_service_runs_is_reported(monkeypatch, settings, reported):
    monkeypatch.setattr("serving.state.cores", lambda: 2)
    assert changed_cores(ServeSettings(records=None, **settings), 2) == []
    assert len(changed_cores(ServeSettings(records=None, **settings), 4)) == reported


@pytest.mark.anyio
async def test_before_and_after_it_runs_nothing_is_served_and_it_is_alive(places, registry):
    app = build_app(ServeSettings(records=None), places.open)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

        async def ask():
            alive, ready = await client.get("/livez"), await client.get("/readyz")
            return alive.status_code, ready.status_code, "starting or ending" in ready.text

        assert await ask() == (200, 503, True)
        async with app.router.lifespan_context(app):
            assert await ask() == (200, 503, False)
        assert await ask() == (200, 503, True)


def alive():
    """How many objects there are of the kinds that a request is made of."""
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in KINDS)


def test_nothing_is_left_of_requests_however_they_ended(serve, registry, promote, bundle, picture):
    promote(registry, bundle())
    with serve() as service:

        def ask():
            for form, kind in (("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")):
                assert service.diagnose(picture(form), kind).status_code == 200
                assert service.form({}, {"image": ("a", picture(form), kind)}).status_code == 200
            assert service.diagnose(picture("PNG")[:60], "image/png").status_code == 400
            assert service.diagnose(params={"top": "0"}).status_code == 422
            assert service.client.get("/nothing").status_code == 404

        for _ in range(3):
            ask()
        before = alive()
        for _ in range(15):
            ask()
        grown = alive() - before
    # What a kept connection and the registry's thread need comes and goes, and asyncio keeps up to a hundred
    # timers that were cancelled; a leak would be 135 of a kind.
    most = {"TimerHandle": 110}
    assert {kind: n for kind, n in grown.items() if n > most.get(kind, 10)} == {}


def test_telemetry_is_off_before_onnxruntime_is_loaded():
    code = "import os, serving.http.app; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    assert subprocess.check_output([sys.executable, "-c", code], env=kept, text=True) == "1\n"


def test_one_module_imports_bentoml_and_none_uses_what_is_private_in_it():
    private = re.compile(r"bentoml\.?_|_bentoml|\.__class__ = ")
    assert [path.name for path in SOURCES if private.search(path.read_text())] == []
    users = [path.name for path in SOURCES if re.search(r"\bimport bentoml", path.read_text())]
    assert users == ["service.py"]
