"""Where the model looked, served where the operator has switched it on."""

import base64
import io
import json
import logging
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from registry.bundle.diagnose import Question
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import ModelFile
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule
from serving.inference.batcher import run_batch
from tests.map_graphs import GRID, SIZE, spot, spot_graph
from tests.serving.conftest import Places, draw_bundle, release, running

ORIENTATION = 0x0112
RED = "MEL"


def map_bundle(truth="honest", **parts):
    """A bundle whose model tells red spots, and where."""
    graph = spot_graph(truth, classes=3)
    manifest = draw_bundle(
        file=ModelFile.of(graph), picture=PictureRule(size=SIZE, fit="crop"), **parts
    ).manifest
    return Bundle(manifest, graph, bundle_digest(manifest))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


@pytest.fixture(scope="module")
def service(tmp_path_factory, records):
    places = Places(tmp_path_factory.mktemp("maps"))
    with places.open() as registry:
        release(registry, map_bundle())
    with running(places.open, records=records, explain=True) as started:
        yield started


def upload(orientation=1, size=(400, 200), at=(250, 150)):
    """A picture that is looked at as 400 x 200, with a red spot to the right and below; as PNG."""
    upright = Image.new("RGB", size, (150, 150, 150))
    upright.paste((230, 40, 40), (*at, at[0] + 40, at[1] + 40))
    stored = upright.transpose(Image.Transpose.ROTATE_90) if orientation == 6 else upright
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    file = io.BytesIO()
    stored.save(file, format="PNG", exif=exif)
    return file.getvalue()


def explained(service, content, **params):
    answer = service.diagnose(content, "image/png", params={"explain": "true", **params})
    assert answer.status_code == 200, answer.text
    return answer.json()["explanation"]


@pytest.mark.parametrize("orientation", [1, 6])
def test_the_overlay_lies_on_what_was_uploaded(service, orientation):
    found = explained(service, upload(orientation))
    assert (found["code"], found["why_not"], len(found["maps"])) == (RED, None, 1)
    (one,) = found["maps"]
    assert one["box"] == [0.25, 0, 0.75, 1]
    assert np.array(one["grid"]).shape == (GRID, GRID)
    overlay = Image.open(io.BytesIO(base64.b64decode(one["png"]))).convert("RGBA").resize((400, 200))
    opacity = np.asarray(overlay.getchannel("A")).astype(int)
    y, x = np.unravel_index(opacity.argmax(), opacity.shape)
    assert abs(x - 270) <= 50, (x, y)
    assert abs(y - 170) <= 50, (x, y)
    assert not opacity[:, :98].any()
    assert not opacity[:, 302:].any()


def test_fhir_tells_no_map(service):
    answer = service.diagnose(
        upload(), "image/png", params={"explain": "true"}, headers={"Accept": "application/fhir+json"}
    )
    assert answer.status_code == 200
    assert "image/png" not in answer.text
    assert "grid" not in answer.text


def test_nothing_of_it_is_logged(service, records, caplog):
    with caplog.at_level(logging.DEBUG):
        found = explained(service, upload())
    (one,) = found["maps"]
    written = "\n".join(path.read_text() for path in records.rglob("*") if path.is_file())
    assert '"decision"' in written
    for told in (caplog.text, written):
        assert one["png"] not in told
        assert "explanation" not in told
        assert json.dumps(one["grid"]) not in told


@pytest.mark.parametrize(
    ("bundle", "explain", "why"),
    [(draw_bundle, True, "cannot tell where it looked"), (map_bundle, False, "Maps are switched off")],
    ids=["no map", "switched off"],
)
def test_without_maps_it_says_why(places, serve, bundle, explain, why):
    with places.open() as registry:
        release(registry, bundle())
    with serve(explain=explain) as service:
        found = explained(service, upload())
        assert found["maps"] == []
        assert found["code"] is None
        assert why in found["why_not"]
        shown = service.client.post("/", files={"image": ("a.png", upload(), "image/png")}).text
    assert "data:image" not in shown
    assert '<details class="looked">' not in shown


def test_in_a_batch_the_map_goes_to_whoever_asked():
    graph = Graph(spot_graph(classes=3))
    plain = Question(spot(0, 0)[None])
    asked = replace(Question(spot(3, 1)[None]), with_map=True)
    first, second, third = run_batch(graph, [plain, asked, plain])
    assert first.map is None
    assert third.map is None
    assert np.unravel_index(second.map[0, 0].argmax(), (GRID, GRID)) == (3, 1)
    np.testing.assert_array_equal(second.probabilities, run_batch(graph, [asked])[0].probabilities)
