"""What identifies a job, now and for whoever comes later."""

from training.job import Job

JOB = {
    "name": "identity",
    "seed": 4,
    "data": {"manifest": "a.csv", "image_size": 32, "clients": {"by": "iid", "count": 3}},
    "model": {"name": "resnet18"},
    "stages": [
        {
            "stage": "federate",
            "rounds": 3,
            "objective": {"name": "supervised", "augment": {"rotation": 10}},
            "aggregator": {"name": "fedauto"},
        }
    ],
}


def digest(**augment):
    stage = JOB["stages"][0]
    objective = {**stage["objective"], "augment": {"rotation": 10, **augment}}
    return Job.model_validate({**JOB, "stages": [{**stage, "objective": objective}]}).digest


def test_the_identity_of_a_job_never_changes_from_version_to_version():
    """As the first version told it: a run begun with any version can be continued with every later one."""
    assert digest() == "sha256:1634aa9fe112cfb4abfa6aa0ca9ecf6fc863dab07311bf3570bdd7e1a0226ce3"


def test_what_was_added_later_counts_as_soon_as_it_is_not_what_it_used_to_be():
    assert digest(crop=(1.0, 1.0), hue=0.0) == digest()
    assert len({digest(), digest(crop=(0.5, 1.0)), digest(hue=0.1), digest(rotation=11)}) == 4
    assert "crop" in Job.model_validate(JOB).resolved()["stages"][0]["objective"]["augment"]
