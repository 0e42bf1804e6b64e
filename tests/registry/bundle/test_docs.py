from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from registry.bundle.folder import write_bundle
from registry.bundle.manifest import BundleManifest, ModelFile
from registry.bundle.metrics.summary import FAIRNESS, MALIGNANCY, METRICS

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("figure", [*METRICS, *FAIRNESS, *MALIGNANCY])
def test_every_figure_is_defined_in_the_docs(figure):
    assert f"`{figure}`" in (DOCS / "metrics.md").read_text()


@pytest.mark.parametrize("key", BundleManifest.model_fields)
def test_every_key_of_bundle_json_is_in_the_docs(key):
    assert f"| `{key}` |" in (DOCS / "bundle.md").read_text()


def test_the_example_in_the_docs_runs(manifest, onnx_graph, tmp_path, monkeypatch, capsys):
    model = onnx_graph(weights=np.eye(3))
    write_bundle(tmp_path / "bundles" / "global", manifest(file=ModelFile.of(model)), model)
    Image.new("RGB", (20, 10), (200, 120, 110)).save(tmp_path / "lesion.jpg")
    example = (DOCS / "bundle.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "bundle.md", "exec"), {})
    assert "'decision': 'report'" in capsys.readouterr().out
