"""What an answer says, over HTTP: triage, the declared tone, unfamiliar pictures, and maps."""

import base64
import io
import json
import logging
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from registry.bundle.diagnose import Question
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import Subgroup
from registry.bundle.manifest import ModelFile, OutOfDistribution
from registry.bundle.model import Gaussians, Graph
from registry.bundle.pictures.rule import PictureRule, decode_picture
from serving.inference.batcher import run_batch
from tests.map_graphs import GRID, SIZE, spot, spot_graph
from tests.represented import patients_of
from tests.serving.conftest import Places, draw_bundle, encode, release, running
from tests.thresholds import concluding, triage

RED, GREEN, GREY = (200, 90, 30), (30, 200, 30), (120, 120, 120)
"""By the global model: malignant, benign, and in between."""
NOT_SHOWN = (
    "No lesion is ruled out for skin tone 5 (fitzpatrick): this version has not shown what would be missed."
)
# Of everyone with triage, of light skin without: level, picture, tone, and the first words on the page.
TRIAGED = (
    ("urgent", {"colour": RED}, "", "Urgent: a clinician has to see this lesion before others"),
    ("routine", {"colour": GREY}, "", "Routine: a clinician looks"),
    ("ruled-out", {"colour": GREEN}, "", "Ruled out: of 100 lesions of each kind of malignancy at most 8"),
    ("routine", {"colour": GREEN}, "V", "Routine: a clinician looks"),
    (None, {"colour": RED, "size": (4, 4)}, "", "Take another picture"),
    (None, {"colour": GREEN}, "1", "Re"),
)


def test_triage_is_in_answers_pages_records_and_metrics(
    serve, registry, promote, bundle, picture, light, tmp_path
):
    promote(registry, bundle(triage=triage()), bundle(light))
    with serve(records=tmp_path / "records") as service:
        for level, drawn, tone, head in TRIAGED:
            content = picture(**drawn)
            answer = service.diagnose(content, params={"skin_tone": tone}).json()
            assert answer["triage"] == level, (tone, answer["malignancy"])
            assert (answer["triage_evidence"] is None) is (level is None)
            nothing = [one for one in answer["warnings"] if one.startswith("No lesion is ruled out")]
            assert nothing == ([NOT_SHOWN] if tone == "V" else [])
            form = {"tone": f"fitzpatrick {tone}"} if tone else {}
            page = service.client.post("/", files={"image": ("a.jpg", content)}, data=form).text
            assert f'<h2 id="answer" tabindex="-1">{head}' in page
        service.eventually(lambda: "fitzpatrick 5" in service.client.get("/operator").text)
        metrics, operator = (service.client.get(path).text for path in ("/metrics", "/operator"))
    files = (tmp_path / "records").iterdir()
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    given = [line["triage"] for line in lines if line.get("confidence")]
    assert given == [level for level, *_ in TRIAGED for _ in range(2)]
    for level, subgroup in (
        ("urgent", "undeclared"),
        ("routine", "undeclared"),
        ("ruled-out", "undeclared"),
        ("routine", "fitzpatrick 5"),
    ):
        labels = f'model="skin-lesion",subgroup="{subgroup}",triage="{level}",version="1"'
        assert f"dermfed_triage_total{{{labels}}} 2.0" in metrics
    # Of eight answers without a tone two were urgent, two ruled out, two routine and two retaken.
    row = '<tr><th scope="row">undeclared</th><td class="number">1</td><td class="number">8</td>'
    shares = re.findall(r">(\d+ %)<", operator.partition(row)[2].partition("</tr>")[0])
    assert shares[:3] == ["25 %"] * 3


def test_the_evidence_of_triage_is_what_the_bundle_says(serve, registry, promote, bundle, picture):
    promote(registry, bundle(triage=triage()))
    with serve() as service:
        evidence = service.diagnose(picture(colour=RED)).json()["triage_evidence"]
    assert evidence == {
        "guarantee": "global",
        "basis": "split",
        "confidence": 0.95,
        "missed": {"limit": 0.1, "kinds": [{"kind": "Melanoma", "n": 113, "missed": 4, "high": 0.08}]},
        "false_alarms": {"limit": 0.1, "n": 512, "seen": 38, "high": pytest.approx(0.0961, abs=1e-4)},
        "predictive": None,
    }


TWO_SCALES = Subgroup(name="dark", tones={"fitzpatrick": ("V", "VI"), "milk10k": ("0", "1")})


def test_a_tone_on_any_scale_of_a_subgroup_is_answered_by_its_model(
    serve, registry, promote, bundle, picture
):
    promote(registry, bundle(), bundle(TWO_SCALES))
    with serve() as service:
        for tone, scale in (("5", "fitzpatrick"), ("0", "milk10k")):
            declared = {"skin_tone": tone, "skin_tone_scale": scale}
            answer = service.diagnose(picture(), params=declared).json()
            assert (answer["model"]["subgroup"], answer["model"]["route"]) == ("dark", "declared")
            reason = answer["reasons"][-1]["text"]
            assert f"skin tone {tone} ({scale}) was declared" in reason
            assert reason.endswith("is for skin tones V, VI (fitzpatrick) or 0, 1 (milk10k), answered.")


FOUR = Subgroup(name="medium-dark", scale="fitzpatrick", values=("3", "4", "5", "6"))


@pytest.mark.parametrize("seen", [False, True], ids=["too few patients", "control: enough patients"])
def test_a_tone_that_was_not_seen_is_promised_nothing(serve, registry, promote, bundle, picture, seen):
    counted = patients_of(FOUR, without=() if seen else "6")
    promote(registry, bundle(), bundle(FOUR, patients_by_tone=counted))
    with serve() as service:
        six, five = (service.diagnose(picture(), params={"skin_tone": tone}).json() for tone in ("VI", "V"))
        (listed,) = service.client.get("/v1/models").json()["models"]
    own, unseen = ("medium-dark", "declared"), ("global", "unknown-tone")
    assert (five["model"]["subgroup"], five["model"]["route"]) == own
    assert (six["model"]["subgroup"], six["model"]["route"]) == (own if seen else unseen)
    assert six["reasons"][-1]["code"] == ("declared" if seen else "tone-not-represented")
    assert six["prediction_set"]["guarantee"] == ("subgroup" if seen else "global")
    warned = [one for one in six["warnings"] if "There is no guarantee for skin tone 6 (fitzpatrick)" in one]
    assert len(warned) == (not seen)
    assert listed["versions"][1]["skin_tones"] == (["3", "4", "5", "6"] if seen else ["3", "4", "5"])


@pytest.mark.parametrize(("away", "decision"), [(0, "report"), (50, "refer")], ids=["like", "unlike"])
def test_a_picture_unlike_those_of_the_training_is_referred(
    serve, registry, promote, bundle, picture, away, decision
):
    content, plain = picture("PNG"), bundle()
    embedding = Graph(plain.model).run(decode_picture(content, plain.manifest.picture)[None]).embedding
    near = Gaussians(embedding + np.float32(away), np.eye(3, dtype=np.float32))
    known = OutOfDistribution.of(near, ["MEL"], trained_on=80, rate=0.1, n=40, threshold_bin=700)
    promote(registry, bundle(conclusions=concluding(-3), out_of_distribution=known))
    with serve() as service:
        answer = service.diagnose(content, "image/png").json()
    assert answer["decision"] == decision
    warned = [one for one in answer["warnings"] if "unlike the pictures the model was trained on" in one]
    assert len(warned) == (away > 0)


def map_bundle():
    """A bundle whose model finds red spots, and says where."""
    graph = spot_graph("honest", classes=3)
    manifest = draw_bundle(file=ModelFile.of(graph), picture=PictureRule(size=SIZE, fit="crop")).manifest
    return Bundle(manifest, graph, bundle_digest(manifest))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


@pytest.fixture(scope="module")
def with_maps(tmp_path_factory, records):
    places = Places(tmp_path_factory.mktemp("maps"))
    with places.open() as registry:
        release(registry, map_bundle())
    with running(places.open, records=records, explain=True) as started:
        yield started


def spotted(orientation=1):
    """A picture that is looked at as 400 x 200, with a red spot to the right and below; as PNG."""
    upright = Image.new("RGB", (400, 200), (150, 150, 150))
    upright.paste((230, 40, 40), (250, 150, 290, 190))
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(
        upright.transpose(Image.Transpose.ROTATE_90) if orientation == 6 else upright, "PNG", exif=exif
    )


def explain(service, content, **options):
    answer = service.diagnose(content, "image/png", params={"explain": "true"}, **options)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("orientation", [1, 6], ids=["upright", "turned"])
def test_the_map_lies_on_the_picture_as_it_was_uploaded(with_maps, orientation):
    found = explain(with_maps, spotted(orientation)).json()["explanation"]
    (one,) = found["maps"]
    assert (found["code"], found["why_not"]) == ("MEL", None)
    assert one["box"] == [0.25, 0, 0.75, 1]
    assert np.array(one["grid"]).shape == (GRID, GRID)
    overlay = Image.open(io.BytesIO(base64.b64decode(one["png"]))).convert("RGBA").resize((400, 200))
    opacity = np.asarray(overlay.getchannel("A")).astype(int)
    y, x = np.unravel_index(opacity.argmax(), opacity.shape)
    assert (x, y) == (pytest.approx(270, abs=50), pytest.approx(170, abs=50))
    assert not opacity[:, :98].any()
    assert not opacity[:, 302:].any()


def test_a_map_is_only_there_where_it_is_asked_for(with_maps):
    assert "explanation" not in with_maps.diagnose(spotted(), "image/png").json()


def test_a_map_is_neither_logged_nor_in_fhir(with_maps, records, caplog):
    with caplog.at_level(logging.DEBUG):
        (one,) = explain(with_maps, spotted()).json()["explanation"]["maps"]
        fhir = explain(with_maps, spotted(), headers={"Accept": "application/fhir+json"}).text
    written = "\n".join(path.read_text() for path in records.rglob("*") if path.is_file())
    assert '"decision"' in written
    for said in (caplog.text, written, fhir):
        assert one["png"] not in said
        assert json.dumps(one["grid"]) not in said
        assert "explanation" not in said


@pytest.mark.parametrize(
    ("bundle", "switched_on", "why"),
    [(draw_bundle, True, "cannot tell where it looked"), (map_bundle, False, "Maps are switched off")],
    ids=["no map", "switched off"],
)
def test_without_maps_it_says_why(registry, serve, promote, bundle, switched_on, why):
    promote(registry, bundle())
    with serve(explain=switched_on) as service:
        found = explain(service, spotted()).json()["explanation"]
        page = service.client.post("/", files={"image": ("a.png", spotted(), "image/png")}).text
    assert (found["maps"], found["code"]) == ([], None)
    assert why in found["why_not"]
    assert "data:image" not in page


def test_in_a_batch_the_map_goes_to_the_request_that_asked():
    graph = Graph(spot_graph(classes=3))
    plain = Question(spot(0, 0)[None])
    asked = replace(Question(spot(3, 1)[None]), with_map=True)
    first, second, third = run_batch(graph, [plain, asked, plain])
    assert first.map is None
    assert third.map is None
    assert np.unravel_index(second.map[0, 0].argmax(), (GRID, GRID)) == (3, 1)
    np.testing.assert_array_equal(second.probabilities, run_batch(graph, [asked])[0].probabilities)
