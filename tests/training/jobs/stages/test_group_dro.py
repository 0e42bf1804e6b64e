"""Group DRO through whole runs, against the algorithm of the paper on all pictures in one place."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.closeness import assert_close_in_norm
from training.data.cells import Cells
from training.errors import JobError, MessageError
from training.models import initial_model
from training.rounds.census import Census

ROUNDS, RATE, STEP, ADJUSTMENT = 4, 0.5, 0.7, 0.3
DRO = {"name": "group-dro", "step_size": STEP, "adjustment": ADJUSTMENT}
NAMES = ("other, light", "malignant, light", "other, dark", "malignant, dark")
# One picture's gradient is by itself, so that a mean over clients is one over their pictures.
NARROW = {"channels": [4, 8, 16, 32], "layers": [2, 2, 2, 2]}
MODEL = {"name": "resnet18", "options": {**NARROW, "norm_layer": "groupnorm1"}}
WHOLE = {
    "sampling": "uniform",
    "batch_size": 1000,
    "optimizer": {"name": "sgd", "lr": RATE, "momentum": 0},
    "augment": {"flip": False},
}
# The same cells cut up between clients in different ways; none of them is like another.
SPLITS = {
    "one client": {"all": {"light": (40, 3, 3, 3), "dark": (14, 3, 3, 3)}},
    "two clients": {
        "north": {"light": (31, 3, 3, 3), "dark": (6, 3, 3, 3)},
        "south": {"light": (7, 3, 3, 3), "dark": (17, 3, 3, 3)},
    },
}


def make_dro(make_job, rounds=ROUNDS, aggregator=None, model=MODEL, **changes):
    federate = {"rounds": rounds, "evaluate_on": None, "aggregator": {**DRO, **(aggregator or {})}}
    federate["objective"] = {**WHOLE, **changes.pop("objective", {})}
    return make_job(federate=federate, model=model, **changes)


def pooled(data):
    """Pixels, labels and cells of all training pictures of all clients."""
    held = [data.examples(client, "train") for client in data.clients]
    pixels = np.concatenate([each.images[each.rows] for each in held]).astype(np.float32) / 255
    labels = np.concatenate([each.labels for each in held])
    subgroups = np.concatenate([each.subgroups for each in held])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(labels), 2 * subgroups + labels


def algorithm(job, data):
    """Algorithm 1 with its two lines in the order of the rounds: q and the weights after each."""
    pixels, labels, cells = pooled(data)
    model = initial_model(job.model, job.seed, 16, 2)
    q, told = np.full(4, 1 / 4), []
    for _ in range(ROUNDS):
        losses = F.cross_entropy(model(pixels), labels, reduction="none")
        means = torch.stack([losses[torch.from_numpy(cells == cell)].mean() for cell in range(4)])
        gradients = torch.autograd.grad((torch.tensor(q) * means).sum(), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= RATE * gradient
        margins = ADJUSTMENT / np.sqrt(np.bincount(cells))
        q = q * np.exp(STEP * (means.detach().double().numpy() + margins))
        q /= q.sum()
        told.append(q)
    return told, {name: value.detach() for name, value in model.state_dict().items()}


def aggregations(ran):
    """Q by cell, round by round."""
    return [
        {name.removeprefix("q/"): value for name, value in line["server"]["global"].items()}
        for line in ran.lines
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_q_and_weights_are_those_of_the_algorithm_on_all_pictures(make_job, run_job, make_dataset, split):
    data = make_dataset(SPLITS[split])
    job = make_dro(make_job, privacy={"min_count": 1})
    ran = run_job(job, data)
    expected, weights = algorithm(job, data)
    for found, q in zip(aggregations(ran), expected, strict=True):
        assert [found[name] for name in NAMES] == pytest.approx(q, rel=1e-5)
    assert max(expected[-1]) > 1.1 * min(expected[-1]), "q moves in this test"
    assert_close_in_norm(ran.weights(), weights, 1e-5)
    begun = initial_model(job.model, job.seed, 16, 2).state_dict()
    assert any(not torch.allclose(weights[name], begun[name], rtol=1e-2) for name in weights), "weights move"


def test_the_summary_tells_the_cells_and_those_that_have_no_part(make_job, run_job):
    ran = run_job(make_dro(make_job, rounds=1, model={}, privacy={"min_count": 2}))
    cells = ran.result.stages["0-federate"].outcome.facts["cells"]
    assert {name: cell["n"] for name, cell in cells.items()} == {
        **{"other, light": 10, "malignant, light": 7, "other, dark": 10, "malignant, dark": 4},
        **{"other, undeclared": 2, "malignant, undeclared": 1},
    }
    assert cells["malignant, undeclared"]["q"] is None
    assert sum(cell["q"] or 0 for cell in cells.values()) == pytest.approx(1)
    assert {name: cell["q"] for name, cell in cells.items() if cell["q"]} == aggregations(ran)[-1]


def test_a_silent_client_leaves_the_cells_that_it_alone_holds(make_job, run_job, make_dataset, monkeypatch):
    import training.rounds.client.fit as client_side

    data = make_dataset({**SPLITS["two clients"], "west": {"undeclared": (12, 3, 3, 3)}})
    real = client_side.received_losses

    def fails(local_model, work):
        if work.client == "west":
            raise MessageError("away")
        return real(local_model, work)

    monkeypatch.setattr(client_side, "received_losses", fails)
    job = make_dro(make_job, rounds=2, privacy={"min_count": 1}, engine={"min_clients": 2})
    ran = run_job(job, data)
    assert [line["answered"] for line in ran.lines] == [["north", "south"]] * 2
    for found in aggregations(ran):
        assert found["malignant, undeclared"] == found["other, undeclared"] == 1 / 6
        assert found["malignant, dark"] != pytest.approx(1 / 6, rel=1e-3)
        assert sum(found.values()) == pytest.approx(1)


def test_of_few_patients_no_loss_is_told_and_none_follows(make_job, run_job, make_dataset, tmp_path):
    # North holds 2 malignant dark pictures, of two patients, and 4 others; south 6 and 11.
    data = make_dataset(SPLITS["two clients"])
    for least, told in ((2, set(NAMES)), (3, set(NAMES[:2]))):
        ran = run_job(make_dro(make_job, rounds=1, privacy={"min_count": least}), data, tmp_path / f"{least}")
        scalars = ran.lines[0]["models"]["global"]["scalars"]
        assert {name.removeprefix("received_loss/") for name in scalars["north"]} == told
        assert {name.removeprefix("received_loss/") for name in scalars["south"]} >= set(NAMES[2:])


@pytest.mark.parametrize("sampling", ["class-balanced", "subgroup-balanced"])
def test_drawn_evenly_a_round_goes_on_average_where_one_of_all_pictures_goes(
    make_job, run_job, make_dataset, tmp_path, sampling
):
    data = make_dataset(SPLITS["one client"])
    step = {"optimizer": {"name": "sgd", "lr": 1e-3, "momentum": 0}}
    exact = make_dro(make_job, rounds=1, privacy={"min_count": 1}, objective=step)
    drawn = make_dro(
        make_job,
        rounds=1,
        privacy={"min_count": 1},
        objective={**step, "sampling": sampling, "samples": 4000, "batch_size": 4000},
    )
    begun = initial_model(exact.model, exact.seed, 16, 2).state_dict()
    ways = []
    for job in (exact, drawn):
        weights = run_job(job, data, tmp_path / f"{job is drawn}").weights()
        ways.append(torch.cat([(weights[name] - begun[name]).flatten() for name in begun]))
    one, other = ways
    # 4,000 draws of 54 pictures: the mean gradient is off by few percent, and without counting the draws by
    # far more, for q is uniform over cells of 26, 14, 10 and 4.
    assert (one - other).norm() / one.norm() < 0.1


def test_data_without_two_cells_to_weigh_are_refused_before_anything_is_trained(
    make_job, run_job, federate_block, tmp_path
):
    dro = {**federate_block(aggregator=DRO, rounds=1), "objective": {**WHOLE, "name": "supervised"}}
    job = make_job(stages=[federate_block(rounds=1), dro], privacy={"min_count": 14})
    with pytest.raises(JobError, match="aggregator group-dro weighs cells of which a client holds 14"):
        run_job(job)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_the_cells_of_a_job_are_those_of_its_labels(make_job, dataset):
    job = make_dro(make_job)
    census = Census.of_dataset(dataset)
    held = census.by_cell("train", Cells.of("malignancy", dataset.labels, dataset.subgroups), ["north"])
    assert held["other, light"] == {"north": 8}
    rule = job.stages[0].settled(census, dataset.labels, job.privacy, dataset.clients)
    assert rule.facts(rule.initial_state())["cells"]["malignant, light"]["n"] == 7
