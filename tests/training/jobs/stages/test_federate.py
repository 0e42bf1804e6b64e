"""The stage `federate` through a whole run."""

import numpy as np
import pytest
import torch

from training.errors import QuorumError
from training.models import build_model


def test_the_test_figures_are_those_of_the_final_model(make_job, run_job, dataset):
    job = make_job(federate={"rounds": 1})
    ran = run_job(job)
    model = build_model(job.model, 2, seed=99)
    model.load_state_dict(ran.weights(), strict=False)
    confusion = {name: np.zeros((2, 2), dtype=int) for name in ("light", "dark", "undeclared")}
    for client in dataset.clients:
        examples = dataset.examples(client, "test")
        pixels = torch.from_numpy(examples.images.astype(np.float32) / 255).permute(0, 3, 1, 2)
        with torch.no_grad():
            answers = model.eval()(pixels).argmax(dim=1).numpy()
        names = np.array(["light", "dark", "undeclared"])[examples.subgroups]
        for name, label, answer in zip(names, examples.labels, answers, strict=True):
            confusion[name][label, answer] += 1

    blocks = ran.result.stages["0-federate"].outcome.test
    assert blocks.keys() == confusion.keys()
    for name, expected in confusion.items():
        np.testing.assert_array_equal(blocks[name].point.confusion, expected)
    test = ran.result.summary["test"]
    total = sum(confusion.values())
    assert test["n"] == total.sum() == 20
    assert test["accuracy"] == pytest.approx(np.trace(total) / total.sum())
    assert test["by_subgroup"]["dark"]["accuracy"] == pytest.approx(
        np.trace(confusion["dark"]) / confusion["dark"].sum()
    )


def test_the_same_job_gives_the_same_bytes_and_another_seed_others(make_job, run_job, tmp_path):
    block = {"rounds": 1, "evaluate_on": None}
    first, again, other = (
        run_job(make_job(federate=block, seed=seed), out=tmp_path / f"run {number}").weights()
        for number, seed in enumerate((7, 7, 8))
    )
    assert all(first[name].numpy().tobytes() == again[name].numpy().tobytes() for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_subgroup_weights_in_a_real_round_follow_the_formula(make_job, run_job):
    """FedEqual: light, dark and undeclared a third each, shared by those who hold them."""
    block = {"rounds": 1, "evaluate_on": None, "aggregator": {"name": "fedequal"}}
    [line] = run_job(make_job(federate=block)).lines
    # north: 13 of 17 light, 5 of 14 dark; south: 9 of 14 dark; west: 4 of 17 light, all undeclared.
    expected = {"north": (13 / 17 + 5 / 14) / 3, "south": 9 / 14 / 3, "west": (4 / 17 + 1) / 3}
    assert line["models"]["global"]["weights"] == pytest.approx(expected)


def test_more_answers_than_there_are_clients_cannot_be_demanded(make_job, run_job):
    with pytest.raises(QuorumError, match=r"engine\.min_clients is 4, but only 3 clients hold training pict"):
        run_job(make_job(engine={"min_clients": 4}))
