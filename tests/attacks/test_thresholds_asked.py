"""Counts at thresholds that the coordinator names: two a hair apart ask about single pictures.

The attacker wants to know of a few patients, between two scores, how many are malignant or answered wrongly.
It asks as many questions as it likes. The control is exact counts for every question.
"""

from dataclasses import replace

import numpy as np
import pytest

from personalization.calibration.at_thresholds import BETWEEN, STEPS, to_tensor
from personalization.calibration.triage import most_thresholds
from personalization.stages import calibration_answers
from personalization.stages.calibration_answers import (
    AT_THRESHOLDS,
    MALIGNANCY,
    answer_calibration,
    has_each_view_once,
)
from personalization.stages.calibration_features import SUBGROUPS
from registry.bundle.counts.score_bins import SCORE_BINS
from tests.training.conftest import FEDERATE
from training.algorithms.release_store import FolderReleases, MemoryReleases
from training.federation.blocks import EvaluateQuestion
from training.federation.client.embed import ENCODER
from training.federation.client.release_ledger import is_first_question
from training.federation.questions import EMBED
from training.jobs.client_app import answer_privately
from training.messages.message import GLOBAL, Broadcast
from training.models.export import GRAPH, as_tensor, export_graph
from training.models.graph_parts import split_graph

CALIBRATE, DIGEST, LEAST = "2-calibrate", "d" * 64, 8
TOP = SCORE_BINS - STEPS
QUESTIONS = [range(start, start + STEPS) for start in (TOP, *range(1, TOP - STEPS, STEPS - 1))]
"""One bin between thresholds each; the first has no threshold of the others."""


def made_up(model):
    """Probabilities that are spread over the bins, of each picture the same whenever it is asked about."""

    def run(examples):
        draws = [np.random.default_rng(abs(int(each))) for each in examples.identities[:, 0]]
        return np.array([each.dirichlet([1.0, 1.0]) for each in draws], dtype=np.float32).reshape(-1, 2)

    return run


@pytest.fixture
def judge(make_job, make_client, monkeypatch):
    """A hospital that has made features to judge an exported graph by, and how it is asked."""
    monkeypatch.setattr(calibration_answers, "scores", made_up)
    job = make_job(stages=[FEDERATE, {"stage": "export"}, {"stage": "calibrate"}])
    client = replace(make_client("north", job=job), min_count=LEAST)
    parts = split_graph(export_graph(client.local_model.model, job.data.image_size))
    tensors, options = {GRAPH: as_tensor(parts.encoder)}, {ENCODER: DIGEST, SUBGROUPS: ["light", "dark"]}
    answer_privately(job, Broadcast(client.id, CALIBRATE, 0, EMBED, GLOBAL, tensors, options), client)

    def asked(client, at, ask=AT_THRESHOLDS, **settings):
        settings = {"subgroups": ("light", "dark"), **settings}
        question = EvaluateQuestion(split="train", **settings).model_dump()
        at_most = most_thresholds(len(settings["subgroups"]))
        tensors = {GRAPH: as_tensor(parts.head)} | ({MALIGNANCY: to_tensor([at], at_most)} if at else {})
        message = Broadcast(client.id, CALIBRATE, 0, ask, GLOBAL, tensors, {**question, ENCODER: DIGEST})
        return answer_calibration(message, client).tensors

    return client, asked


def read_histogram(asked, client):
    """The merged histogram that leaves anyway, two rows of each subgroup, `(rows, bins)`."""
    return asked(client, None, ask=MALIGNANCY)[MALIGNANCY].numpy().reshape(-1, SCORE_BINS)


def listed(asked, client, releases):
    """What answers to all questions tell of single bins, `(rows, bins)`."""
    found = np.zeros((4, SCORE_BINS), dtype=np.int64)
    for question in QUESTIONS:
        answer = asked(replace(client, releases=releases()), question)[BETWEEN].numpy()
        found[:, question.start : question.start + STEPS - 1] = answer[:, 1:STEPS]
    return found


def test_in_the_clear_thresholds_tell_what_the_merged_histogram_tells_and_no_more(judge):
    client, asked = judge
    merged = read_histogram(asked, client)
    np.testing.assert_array_equal(listed(asked, client, MemoryReleases)[:, 1:TOP], merged[:, 1:TOP])
    exact = listed(asked, replace(client, masked=True), MemoryReleases)
    assert (exact[:, 1:TOP] != merged[:, 1:TOP]).any(), "the control: not what is exact"


@pytest.mark.parametrize("where", ["process", "disk"])
def test_under_masks_one_question_about_a_model_is_answered_exactly(judge, where, tmp_path):
    """Five thresholds at a time would read the exact histogram of the sum."""
    client, asked = judge
    masked, memory = replace(client, masked=True), MemoryReleases()
    exact = listed(asked, masked, MemoryReleases)
    assert 0 < exact[0][exact[0] > 0].min() < LEAST // 2, "the control: single patients, every question first"
    kept = listed(asked, masked, lambda: memory if where == "process" else FolderReleases(tmp_path))
    merged = read_histogram(asked, client)
    np.testing.assert_array_equal(kept[:, 1 : TOP - STEPS], merged[:, 1 : TOP - STEPS])


@pytest.mark.parametrize(
    "other",
    [{"subgroups": ("light",)}, {"thresholds": {"set_from": 0, "malignant_from": 1}}],
    ids=["of a part", "with a working point"],
)
def test_the_same_thresholds_about_something_else_are_another_question(judge, other):
    client, asked = judge
    masked = replace(client, masked=True, releases=MemoryReleases())
    place = int(np.flatnonzero(listed(asked, masked, MemoryReleases)[0])[-1])
    at = range(place, place + 2)
    first = asked(masked, at)[BETWEEN]
    assert first[:, 1].any(), "the control"
    in_the_clear = asked(replace(client, releases=MemoryReleases()), at, **other)[BETWEEN]
    np.testing.assert_array_equal(asked(masked, at, **other)[BETWEEN], in_the_clear)
    np.testing.assert_array_equal(asked(masked, at)[BETWEEN], first, "the first again, after a restart")


@pytest.mark.parametrize(
    ("patterns", "exact"),
    [
        ((), True),
        ((("a", "b"), ("a",), ("b",)), True),
        ((("a",), ("a",)), True),
        ((("a", "b"), ("a",), ("a",)), False),
        ((("a", "a"), ("a",), ("a",)), False),
        ((("a", "b"), ("a",), ("b",), ("a", "b")), False),
        ((("a",),), False),
    ],
)
def test_a_view_twice_in_one_question_would_have_twice_the_thresholds(patterns, exact):
    question = EvaluateQuestion(split="calibration", subgroups=("light",), patterns=patterns)
    assert has_each_view_once(question) is exact
    assert not has_each_view_once(question.model_copy(update={"left_out": ("context",)}))


def test_the_account_is_kept_by_hospital_and_model():
    store = MemoryReleases()
    asked = [("north", "a", "1"), ("north", "a", "2"), ("north", "b", "2"), ("south", "a", "2")]
    assert [is_first_question(store, *each, LEAST) for each in asked] == [True, False, True, True]
    assert is_first_question(store, *asked[0], LEAST)
    assert not list(store.all("north")), "the account of answers does not look at it"
