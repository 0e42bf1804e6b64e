import io
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from registry.bundle import diagnose as diagnose_module
from registry.bundle.familiarity import Gaussians
from registry.bundle.folder import read_bundle, write_bundle
from registry.bundle.manifest.schema import Abstention, ModelFile, OutOfDistribution
from registry.bundle.model_file.graph import Graph
from registry.bundle.pictures.rule import decode_picture

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


def test_a_picture_gets_the_answer_of_the_graph_on_its_pixels(bundle_folder, png):
    bundle = read_bundle(bundle_folder)
    image = decode_picture(png, bundle.manifest.picture)
    expected = Graph(bundle.model).run(image[None]).probabilities[0]
    findings = diagnose_module.diagnose(bundle, png).to_json()["findings"]
    codes = [label.code for label in bundle.manifest.labels]
    assert {finding["code"]: finding["probability"] for finding in findings} == pytest.approx(
        dict(zip(codes, expected.tolist(), strict=True))
    )


@pytest.mark.parametrize(("away", "decision"), [(0, "report"), (3, "refer")])
def test_a_picture_far_from_those_trained_on_is_referred(manifest, onnx_graph, png, tmp_path, away, decision):
    graph = onnx_graph(weights=WEIGHTS)
    pixels = decode_picture(png, manifest().picture)
    colour = pixels.mean(axis=(0, 1))  # what the graph calls its embedding
    near = Gaussians((colour[None] + [[away, 0, 0]]).astype(np.float32), np.eye(3, dtype=np.float32))
    known = OutOfDistribution.of(near, ["NV"], trained_on=50, rate=0.05, n=30, threshold_bin=700)  # 3.16
    whole = manifest(
        file=ModelFile.of(graph), abstention=Abstention(threshold_bin=0), out_of_distribution=known
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


def test_the_command_prints_json(bundle_folder, png, tmp_path):
    (tmp_path / "a.png").write_bytes(png)
    done = CliRunner().invoke(command(), [str(bundle_folder), str(tmp_path / "a.png")])
    assert done.exit_code == 0
    assert json.loads(done.output)["decision"] in ("report", "refer")


@pytest.mark.parametrize("content", [None, b"no picture"])
def test_what_is_no_picture_is_said_in_a_line(bundle_folder, tmp_path, content):
    if content is not None:
        (tmp_path / "a.png").write_bytes(content)
    done = CliRunner().invoke(command(), [str(bundle_folder), str(tmp_path / "a.png")])
    assert done.exit_code == 2
    assert len(done.output.strip().splitlines()) == 1
