"""The table of who sees what, held against each answer that reaches the coordinator."""

import pytest

from training.jobs.disclosure_report import MASKED, disclosures, over_network
from training.privacy.secagg.messages import EARLIER, KEYS, LAYOUT, REQUESTS
from training.rounds.census import CENSUS
from training.rounds.requests import CANARY, EMBED

NAMES = ("north", "south", "east", "west")
TOPICS = {
    "census": "census",
    CANARY: "canary",
    "fit": "weights",
    "evaluate": "counts",
    "test": "counts",
    "parity": "parity",
    "log_likelihoods": "calibration",
    "malignancy": "calibration",
    "truth": "calibration",
    "nodes": "calibration",
    "at_thresholds": "calibration",
    "distances": "calibration",
    "tones": "calibration",
    "counts": "counts",
    "embeddings": "embeddings",
}
EMPTY = (*REQUESTS, EMBED)  # what is asked without anything of the pictures in the answer
WITH_LOSSES, WITH_SCALARS = {"fit"}, {"parity", CENSUS}


@pytest.mark.parametrize(
    ("privacy", "masked"),
    [
        ({}, {"counts", "calibration", "embeddings"}),
        ({"secure_aggregation": {"counts": False}}, {"weights"}),
    ],
    ids=["by default", "weights alone"],
)
def test_every_answer_is_as_the_table_says(own_job, net, heard, federate_block, privacy, masked):
    stages = [federate_block(rounds=1), {"stage": "export"}, {"stage": "calibrate", "sensitivity": 0.6}]
    job = over_network(own_job(stages=stages, privacy={"min_count": 2, **privacy}))
    there = net(job)
    answers = heard(there)
    there.run()
    table = {row.topic: row for row in disclosures(job, NAMES)}

    assert {topic for topic, row in table.items() if row.coordinator == MASKED} == masked
    assert ("at_thresholds" in {header.ask for header, _ in answers}) == ("calibration" in masked)
    told_of = {TOPICS[header.ask] for header, _ in answers if header.ask not in EMPTY}
    assert told_of == table.keys() - {"introduction", "scalars"}
    for header, tensors in answers:
        if header.ask in REQUESTS:
            continue
        if header.ask == EMBED:
            assert not tensors
            assert not header.losses
            assert not header.scalars
            continue
        if tensors:
            withheld = {KEYS, LAYOUT} <= set(tensors) <= {KEYS, LAYOUT, EARLIER}
            assert withheld == (TOPICS[header.ask] in masked), header.ask
        assert bool(header.losses) == (header.ask in WITH_LOSSES)
        assert bool(header.scalars) == (header.ask in WITH_SCALARS)
        if header.ask == CENSUS:
            assert all(name.startswith("unused.") for name in header.scalars), (
                "counts by reason, nothing else"
            )

    told = [f"job {job.name}, who sees what: {row.line}" for row in table.values()]
    first_task = next(place for place, line in enumerate(there.said) if "census: done" in line)
    assert there.said[:first_task].count(told[0]) == len(NAMES)
    assert set(told) <= set(there.said[:first_task])
    assert all(there.progress.getvalue().count(f"who sees what: {row.line}") == 1 for row in table.values())
