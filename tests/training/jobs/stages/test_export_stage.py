"""The stage `export`: every model becomes a graph, checked on the clients' own pictures."""

import numpy as np
import pytest
import torch

from registry.bundle.folder import read_bundle
from registry.bundle.model import Graph
from training.errors import ExportError
from training.models import build_model
from training.models.classifier import float_state
from training.models.export import export_graph
from training.seeds import derive_seed


def test_the_exported_model_is_the_one_that_was_trained(make_job, run_job, federate_block, dataset):
    job = make_job(stages=[federate_block(rounds=1), {"stage": "export"}])
    ran = run_job(job)

    [folder] = (ran.out / "bundles").iterdir()
    bundle = read_bundle(folder)
    assert folder.name == "global"
    assert [label.code for label in bundle.manifest.labels] == ["benign", "malignant"]
    assert bundle.manifest.lineage.job == job.digest
    assert bundle.manifest.picture.size == 16
    assert bundle.manifest.picture.version == 2

    model = build_model(job.model, 2, seed=99)
    model.load_state_dict(ran.weights(), strict=False)
    images = dataset.examples("south", "test").images
    with torch.no_grad():
        pixels = torch.from_numpy(images.astype(np.float32) / 255).permute(0, 3, 1, 2)
        expected = torch.softmax(model.eval()(pixels), dim=1).numpy()
    np.testing.assert_allclose(Graph(bundle.model).run(images).probabilities, expected, atol=1e-5)

    facts = ran.result.stages["1-export"].outcome.facts
    assert 0 <= facts["parity"]["global"] < facts["tolerance"] == 1e-4
    assert bundle.manifest.parity == facts["parity"]["global"]
    # The stage after finds the model that the job began with, as it was.
    initial = float_state(build_model(job.model, 2, derive_seed(job.seed, "initial weights")))
    left = float_state(ran.result.context.model)
    assert all(torch.equal(left[name], value) for name, value in initial.items())


def test_a_graph_that_computes_something_else_is_refused(make_job, run_job, federate_block, monkeypatch):
    monkeypatch.setattr("training.jobs.stages.export.export_graph", lambda *_: b"a graph")
    monkeypatch.setattr(
        "training.jobs.stages.export.largest_differences", lambda *_: np.full(64, 0.3, dtype=np.float32)
    )
    job = make_job(stages=[federate_block(rounds=1), {"stage": "export", "tolerance": 0.2}])
    with pytest.raises(
        ExportError,
        match=r"the exported model global differs from torch by 0\.3 in a probability at north; "
        r"allowed is 0\.2 \(export\.tolerance\)",
    ):
        run_job(job)


def test_a_graph_with_a_broken_weight_is_refused_on_the_clients_pictures(
    make_job, run_job, federate_block, monkeypatch
):
    def broken(model, size):
        head = model.encoder.get_classifier()
        head.weight.data[0] += 0.5
        graph = export_graph(model, size)
        head.weight.data[0] -= 0.5
        return graph

    monkeypatch.setattr("training.jobs.stages.export.export_graph", broken)
    with pytest.raises(ExportError, match="the exported model global differs from torch by"):
        run_job(make_job(stages=[federate_block(rounds=1), {"stage": "export"}]))
