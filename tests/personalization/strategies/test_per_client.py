"""Personal models of clients: each trained on its own pictures, judged on them, and kept beside the run."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file

from personalization.stages.personal_models import personal_file
from training.errors import JobError
from training.messages import GLOBAL
from training.models import build_model
from training.models.classifier import float_state
from training.models.encoder_files import read_file
from training.models.encoder_loading import load_tensors

FINETUNE = {"name": "finetune", "epochs": 2}
BAND = {"band": 1.0, "rule": "paper"}  # binds nobody


def own(stage, client: str):
    return load_file(personal_file(stage.context.folder, client))


def test_every_client_has_a_model_of_its_own_pictures_and_is_judged_by_it(
    stages, make_job, stand, mixed, local_loop, answers, assert_close
):
    job = make_job(stages(FINETUNE, per="client", selection=BAND))
    stage = stand(job, mixed)
    outcome = stage.run()
    confusions = dict.fromkeys(("light", "dark"), 0)
    for client in ("north", "south"):
        validation, test = mixed.examples(client, "validation"), mixed.examples(client, "test")
        states = local_loop(job, stage.start, mixed.examples(client, "train"), client, client, epochs=2)
        right = {
            at: (answers(job, of, validation) == validation.labels).mean() for at, of in enumerate(states)
        }
        assert outcome.facts["validation_accuracies"][client] == pytest.approx(right)
        assert outcome.facts["validation_pictures"][client] == len(validation)
        chosen = max(right, key=lambda epoch: (right[epoch], -epoch))
        assert outcome.facts["epochs"][client] == chosen
        assert_close(own(stage, client), states[chosen])

        found = answers(job, states[chosen], test)
        row = outcome.facts["by_client"][client]
        assert row["n"] == len(test)
        assert row["accuracy"] == pytest.approx((found == test.labels).mean())
        for place, name in enumerate(("light", "dark")):
            of = test.subgroups == place
            confusions[name] += np.bincount(3 * test.labels[of] + found[of], minlength=9).reshape(3, 3)
    for name, expected in confusions.items():
        assert outcome.test[name].point.confusion.tolist() == expected.tolist()
    rows = outcome.facts["by_client"].values()
    mean = outcome.facts["over_clients"]["accuracy"]["mean"]
    assert mean == pytest.approx(sum(row["accuracy"] for row in rows) / 2)


def test_the_stages_that_follow_have_the_global_model(stages, make_job, stand, mixed):
    stage = stand(make_job(stages(FINETUNE, per="client")), mixed)
    outcome = stage.run()
    assert outcome.models == {GLOBAL: stage.start}
    assert outcome.facts["per"] == "client"
    assert "by_subgroup" not in outcome.facts, "no subgroup has an epoch of its own"


def test_a_hospital_can_begin_with_its_own_model(stages, make_job, stand, mixed):
    job = make_job(stages(FINETUNE, per="client", selection=BAND))
    stage = stand(job, mixed)
    stage.run()
    job.stages[0].tidy(stage.context.folder)
    model = build_model(job.model, 3, seed=9)
    path = personal_file(stage.context.folder, "north")
    load_tensors(model, read_file(path), "north", "model")
    assert all(value.equal(own(stage, "north")[name]) for name, value in float_state(model).items())


def test_the_pictures_of_one_client_change_nobody_elses_model(stages, make_job, stand, mixed):
    poison = np.random.default_rng(0)
    held = {}
    for (client, split), part in mixed.held.items():
        images = poison.integers(0, 255, part.images.shape, dtype=np.uint8)
        spoiled = replace(part, images=images, labels=(part.labels + 1) % 3)
        held[client, split] = spoiled if client == "south" and split == "train" else part
    job = make_job(stages(FINETUNE, per="client", selection=BAND))
    clean, poisoned = stand(job, mixed, name="clean"), stand(job, replace(mixed, held=held), name="poisoned")
    first, second = clean.run(), poisoned.run()
    found, expected = own(poisoned, "north"), own(clean, "north")
    assert all(value.equal(found[name]) for name, value in expected.items())
    north = [outcome.facts["validation_accuracies"]["north"] for outcome in (first, second)]
    south = [outcome.facts["validation_accuracies"]["south"] for outcome in (first, second)]
    assert north[0] == north[1]
    assert south[0] != south[1], "the poison was there"


def test_who_has_too_few_pictures_keeps_the_global_model_and_is_named(
    stages, make_job, stand, draw_hospitals
):
    sizes = {"light": (12, 6, 0, 6), "dark": (8, 4, 0, 6)}  # of 6 pictures, two are of one patient
    data = draw_hospitals(sizes, {"north": "light", "south": "dark", "west": "light"})
    held = dict(data.held)
    held["west", "train"] = held["west", "train"].where(np.arange(12) < 1)  # one picture is no batch
    data = replace(data, held=held)
    job = make_job(stages(FINETUNE, per="client"), privacy={"min_count": 5})
    stage = stand(job, data)
    said = []
    stage.context.metrics_log.log = said.append
    outcome = stage.run()
    assert list(outcome.facts["epochs"]) == ["north"]
    assert outcome.facts["without_own"] == ["south", "west"]
    assert any("south, west keep the global model" in line for line in said)
    assert any("what is exported" in line for line in said)
    for client in ("south", "west"):
        assert all(value.equal(stage.start[name]) for name, value in own(stage, client).items())
    assert set(outcome.facts["by_client"]) == {"north", "south", "west"}
    assert stage.context.metrics_log.lines()[0]["asked"] == ["north"]


def test_nobody_with_pictures_enough_is_refused(stages, make_job, stand, draw_hospitals):
    data = draw_hospitals({"light": (12, 6, 0, 0), "dark": (8, 4, 0, 0)}, {"north": "light", "south": "dark"})
    job = make_job(stages(FINETUNE, per="client"), privacy={"min_count": 7})
    with pytest.raises(JobError, match=r"no hospital has .* 7 labelled validation pictures"):
        stand(job, data).run()


def test_subgroups_need_not_be_skin_tones(stages, make_job, stand, mixed):
    blocks = {"data": {"manifest": "in-memory.csv", "image_size": 16, "subgroups": {"column": "clinic"}}}
    outcome = stand(make_job(stages({"name": "none"}, per="client"), **blocks), mixed).run()
    assert set(outcome.test) == {"light", "dark"}


def test_few_pictures_of_a_subgroup_cannot_be_told_apart_by_subtraction(stages, make_job, stand, mixed):
    """Blocks by subgroup of the global model leave a small one out; the pooled block must do so too."""
    examples = mixed.examples("north", "validation")
    dark = np.flatnonzero(examples.subgroups == 1)[1:]
    held = {**mixed.held, ("north", "validation"): examples.where(~np.isin(np.arange(len(examples)), dark))}
    light = int((examples.subgroups == 0).sum())
    job = make_job(stages({"name": "none"}, per="client"), privacy={"min_count": 2})
    outcome = stand(job, replace(mixed, held=held)).run()
    assert outcome.facts["validation_pictures"]["north"] == light
