"""The strategy `none`: the global model for everybody."""

import pytest
from pydantic import ValidationError

from training.messages.message import GLOBAL


def test_every_subgroup_has_the_global_models_bytes_and_nobody_trains(stages, make_job, stand, hospitals):
    stage = stand(make_job(stages({"name": "none"})), hospitals)
    outcome = stage.run()
    assert list(outcome.models) == [GLOBAL, "light", "dark"]
    for weights in outcome.models.values():
        assert all(
            value.numpy().tobytes() == stage.start[name].numpy().tobytes() for name, value in weights.items()
        )
    assert outcome.rounds == 0
    assert stage.context.metrics_log.lines() == []
    assert outcome.facts["by_subgroup"] == {"light": {"epoch": 0}, "dark": {"epoch": 0}}
    assert [list(of) for of in outcome.facts["validation_accuracies"].values()] == [[0], [0]]


def test_per_client_every_hospital_keeps_the_global_model(stages, make_job, stand, hospitals):
    job = make_job(stages({"name": "none"}, per="client"))
    outcome = stand(job, hospitals).run()
    assert outcome.facts["epochs"] == {"north": 0, "south": 0}
    plain = stand(make_job(stages({"name": "none"})), hospitals, name="per subgroup").run()
    found, expected = (
        [of[name].point.confusion.tolist() for name in ("light", "dark")] for of in (outcome.test, plain.test)
    )
    assert found == expected


@pytest.mark.parametrize("wrong", [{"epochs": 1}, {"objective": {"name": "supervised"}}])
def test_there_is_nothing_to_set(wrong, stages, make_job):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        make_job(stages({"name": "none", **wrong}))
