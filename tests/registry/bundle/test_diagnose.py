""""""

import io
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from registry.bundle import diagnose as diagnose_module
from registry.bundle.cases import read_given
from registry.bundle.diagnose import Question, ask
from registry.bundle.errors import GraphError
from registry.bundle.folder import read_bundle, write_bundle
from registry.bundle.manifest import ModelFile, OutOfDistribution
from registry.bundle.model import Gaussians, Graph
from registry.bundle.pictures.rule import decode_picture
from tests.case_bundles import CASE, SIZE, case_bundle, case_graph, case_logits, softmax
from tests.closeness import assert_close_in_norm
from tests.thresholds import concluding, triage

WEIGHTS = np.random.default_rng(1).normal(size=(3, 3)) / 100


@pytest.fixture
def bundle_folder(manifest, onnx_graph, tmp_path):
    graph = onnx_graph(weights=WEIGHTS)
    write_bundle(tmp_path / "bundle", manifest(file=ModelFile.of(graph)), graph)
    return tmp_path / "bundle"


@pytest.fixture
def png():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


@pytest.mark.parametrize(("away", "decision"), [(0, "report"), (3, "refer")])
def test_a_picture_far_from_those_trained_on_is_referred(manifest, onnx_graph, png, tmp_path, away, decision):
    graph = onnx_graph(weights=WEIGHTS)
    pixels = decode_picture(png, manifest().picture)
    colour = pixels.mean(axis=(0, 1))  # what the graph calls its embedding
    near = Gaussians((colour[None] + [[away, 0, 0]]).astype(np.float32), np.eye(3, dtype=np.float32))
    known = OutOfDistribution.of(near, ["NV"], trained_on=50, rate=0.05, n=30, threshold_bin=700)  # 3.16
    certain = concluding(-3, "MEL", "NV", "AK")
    whole = manifest(
        file=ModelFile.of(graph), out_of_distribution=known, conclusions=certain, triage=triage(3)
    )
    write_bundle(tmp_path / "bundle", whole, graph)
    answer = diagnose_module.diagnose(read_bundle(tmp_path / "bundle"), png).to_json()
    assert answer["decision"] == decision
    assert any("unlike the pictures the model was" in said for said in answer["warnings"]) is (away > 0)


def command():
    import typer

    app = typer.Typer()
    app.command()(diagnose_module.main)
    return app


@pytest.mark.parametrize("content", [None, b"no picture"])
def test_what_is_no_picture_is_said_in_a_line(bundle_folder, tmp_path, content):
    if content is not None:
        (tmp_path / "a.png").write_bytes(content)
    done = CliRunner().invoke(command(), [str(bundle_folder), str(tmp_path / "a.png")])
    assert done.exit_code == 2
    assert len(done.output.strip().splitlines()) == 1


@pytest.fixture
def case_folder(tmp_path):
    bundle = case_bundle()
    write_bundle(tmp_path / "cases", bundle.manifest, bundle.model)
    return tmp_path / "cases"


def test_a_case_gets_the_answer_of_its_pictures_kinds_and_facts(case_folder, png, tmp_path):
    (tmp_path / "derm.png").write_bytes(png)
    Image.new("RGB", (30, 20), (200, 90, 30)).save(tmp_path / "close.png")
    arguments = ["--close-up", str(tmp_path / "close.png"), "--dermoscopic", str(tmp_path / "derm.png")]
    facts = ["--fact", "age=70", "--fact", "site=back"]
    done = CliRunner().invoke(command(), [str(case_folder), *arguments, *facts])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    rule = read_bundle(case_folder).manifest.picture
    pixels = [decode_picture((tmp_path / name).read_bytes(), rule) for name in ("close.png", "derm.png")]
    context = np.array([70, np.nan, 1])
    expected = softmax(case_logits([(pixels[0], 1), (pixels[1], 2)], context))
    got = {finding["code"]: finding["probability"] for finding in answer["findings"]}
    assert [got[code] for code in ("MEL", "NV", "AK")] == pytest.approx(expected.tolist(), abs=1e-5)
    assert answer["inputs"] == {
        "pictures": ["close-up", "dermoscopic"],
        "facts": {"age": "70", "site": "trunk"},
        "pattern": "close-up+dermoscopic+some context",
        "promised": True,
    }
    assert answer["would_help"] == [{"missing": ["sex"], "fewer_classes": 0.2, "more_reported": 0.1}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fact", "age=700"], "age 700 is out of bounds"),
        (["--fact", "age"], "is not NAME=VALUE"),
        (["--fact", "age=70", "--fact", "age=71"], "is there twice"),
    ],
)
def test_what_the_model_does_not_take_is_said_in_a_line(case_folder, png, tmp_path, options, said):
    (tmp_path / "a.png").write_bytes(png)
    done = CliRunner().invoke(command(), [str(case_folder), str(tmp_path / "a.png"), *options])
    assert done.exit_code == 2
    assert said in done.output


RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (6, SIZE, SIZE, 3), dtype=np.uint8)
CASES = (
    ([0, 1], ["close-up", "dermoscopic"], {"age": "70", "sex": "male", "site": "hand"}),
    ([2], [None], {}),
    ([3, 4, 5], ["close-up", "close-up", "dermoscopic"], {"site": "trunk"}),
)


def questions():
    return [Question(IMAGES[rows], read_given(CASE, kinds, facts)) for rows, kinds, facts in CASES]


def expected(question):
    pictures = list(zip(question.images, question.given.kinds, strict=True))
    return case_logits(pictures, question.given.context)


def test_cases_of_any_number_of_pictures_go_together():
    graph = Graph(case_graph())
    together = ask(graph, questions())
    for row, question in enumerate(questions()):
        alone = ask(graph, [question])
        assert_close_in_norm(alone.logits[0], expected(question), 1e-5)
        assert_close_in_norm(together.logits[row], alone.logits[0], 1e-6)
        np.testing.assert_allclose(together.probabilities[row], softmax(expected(question)), atol=1e-5)
        assert_close_in_norm(together.embedding[row], question.images.mean(axis=(0, 1, 2)), 1e-5)


def test_a_case_is_none_for_a_model_of_pictures_nor_the_other_way(onnx_graph):
    with pytest.raises(GraphError, match="the graph takes single pictures"):
        ask(Graph(onnx_graph()), questions())
    with pytest.raises(GraphError, match="the graph takes cases"):
        ask(Graph(case_graph()), [Question(IMAGES[:1])])
