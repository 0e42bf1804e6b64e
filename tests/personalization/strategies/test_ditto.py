"""The strategy `ditto`, against SGD with the pull's gradient written out."""

import pytest
import torch
from pydantic import ValidationError

from personalization.strategies.ditto import PulledTask

PULL = 0.7


def test_every_step_is_pulled_to_the_global_model_in_every_epoch(
    stages, make_job, stand, hospitals, newest, local_loop, assert_close
):
    job = make_job(stages({"name": "ditto", "epochs": 3, "pull": PULL}))
    stage = stand(job, hospitals)
    stage.run()

    def pull(model) -> None:
        """∇F + λ (v − w*), with w* the global model and not the epoch's start."""
        for name, parameter in model.named_parameters():
            parameter.grad += PULL * (parameter.detach() - stage.start[name])

    for track, client in (("light", "north"), ("dark", "south")):
        examples = hospitals.examples(client, "train")
        states = local_loop(job, stage.start, examples, track, client, epochs=3, after_backward=pull)
        assert_close(newest(stage, track), states[-1])


class Quadratic:
    """F(v) = Σ c_i v_i² as a task."""

    def __init__(self, model, c) -> None:
        self.model, self.c = model, c

    def loss(self, batch):
        return (self.c * self.model.weight**2).sum()


def test_the_gradient_is_that_of_the_written_objective():
    model = torch.nn.Linear(2, 1, bias=False)
    model.weight.data.copy_(torch.tensor([[1.0, -2.0]]))
    target, c = torch.tensor([[0.5, 3.0]]), torch.tensor([1.0, 4.0])
    task = PulledTask(Quadratic(model, c), model, {"weight": target}, 0.3)
    loss = task.loss(None)
    loss.backward()
    # F = 1 + 16; ‖v − w*‖² = 0.25 + 25; the gradient is 2 c v + λ (v − w*).
    assert loss.item() == pytest.approx(17 + 0.15 * 25.25)
    assert model.weight.grad.tolist() == [pytest.approx([2 + 0.15, -16 - 1.5])]


def test_without_a_pull_it_is_fine_tuning(stages, make_job, stand, hospitals, newest):
    ends = []
    for strategy in ({"name": "ditto", "epochs": 2, "pull": 0.0}, {"name": "finetune", "epochs": 2}):
        stage = stand(make_job(stages(strategy)), hospitals, name=strategy["name"])
        stage.run()
        ends.append(newest(stage, "light"))
    assert all(value.equal(ends[1][name]) for name, value in ends[0].items())


def test_the_global_model_is_sent_beside_the_first_time_alone(stages, make_job, stand, hospitals):
    stage = stand(make_job(stages({"name": "ditto", "epochs": 2})), hospitals)
    stage.run()
    whole = sum(value.numel() * 4 for value in stage.start.values())
    target = sum(value.numel() * 4 for name, value in stage.start.items() if "running" not in name)
    down = [line["bytes_by_client"]["north"]["down"] for line in stage.context.metrics_log.lines()]
    assert down == [whole + target, whole]


def test_a_pull_that_would_overshoot_is_refused(stages, make_job):
    with pytest.raises(ValidationError, match=r"pull 2000 at lr 0\.001 would overshoot.*must be below 2;"):
        make_job(stages({"name": "ditto", "epochs": 1, "pull": 2000}, rate=1e-3, momentum=0.0))
    make_job(stages({"name": "ditto", "epochs": 1, "pull": 2000}, rate=1e-3, momentum=0.5))
