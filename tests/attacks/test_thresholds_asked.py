"""Counts at thresholds that the coordinator names: two a hair apart ask about single pictures.

The attacker wants to know of a few patients, between two scores, how many are malignant or answered wrongly.
It asks as many requests as it likes. The control is exact counts for every request.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from personalization.calibration.at_thresholds import BETWEEN, STEPS, to_tensor
from personalization.calibration.triage import most_thresholds
from personalization.stages.calibration_answers import (
    AT_THRESHOLDS,
    MALIGNANCY,
    NODES,
    NodesAsked,
    answer_calibration,
    has_each_view_once,
    names_in_views,
)
from personalization.stages.calibration_features import SUBGROUPS, Judged
from registry.bundle.conclusions import Tree
from registry.bundle.score_bins import SCORE_BINS, score_bin
from tests.measured import GROUPED
from tests.training.conftest import FEDERATE
from training.algorithms.client import FolderReleases, MemoryReleases
from training.jobs.client_app import answer_privately
from training.messages import GLOBAL, Broadcast
from training.models.export import GRAPH, as_tensor, export_graph, split_graph
from training.rounds.client.embed import ENCODER
from training.rounds.client.ledger import is_first_request
from training.rounds.requests import EMBED, EvaluateRequest

CALIBRATE, DIGEST, LEAST = "2-calibrate", "d" * 64, 8
TOP = SCORE_BINS - STEPS
REQUESTS = [range(start, start + STEPS) for start in (TOP, *range(1, TOP - STEPS, STEPS - 1))]
"""One bin between thresholds each; the first has no threshold of the others."""


def made_up(classes=2):
    """Probabilities that are spread over the bins, of each picture the same whenever it is asked about."""

    def run(examples):
        draws = [np.random.default_rng(abs(int(each))) for each in examples.identities[:, 0]]
        said = np.array([each.dirichlet([2 / classes] * classes) for each in draws], dtype=np.float32)
        return said.reshape(-1, classes)

    return run


def score_by(monkeypatch, probabilities):
    """Have models say what a function of examples does."""

    def run(model, examples):
        return SimpleNamespace(probabilities=probabilities(examples))

    monkeypatch.setattr(Judged, "run", run)


def make_judge(job, client):
    """A hospital that has made features to judge an exported graph by, and what follows its encoder."""
    client = replace(client, min_count=LEAST)
    parts = split_graph(export_graph(client.local_model.model, job.data.image_size))
    tensors, options = {GRAPH: as_tensor(parts.encoder)}, {ENCODER: DIGEST, SUBGROUPS: ["light", "dark"]}
    answer_privately(job, Broadcast(client.id, CALIBRATE, 0, EMBED, GLOBAL, tensors, options), client)
    return client, parts.head


@pytest.fixture
def calibrating(make_job):
    """A job that calibrates."""
    return make_job(stages=[FEDERATE, {"stage": "export"}, {"stage": "calibrate"}])


@pytest.fixture
def judge(calibrating, make_client, monkeypatch):
    """Such a hospital, and how it is asked."""
    score_by(monkeypatch, made_up())
    client, head = make_judge(calibrating, make_client("north", job=calibrating))

    def asked(client, at, ask=AT_THRESHOLDS, **settings):
        settings = {"subgroups": ("light", "dark"), **settings}
        request = EvaluateRequest(split="train", **settings).model_dump()
        at_most = most_thresholds(len(settings["subgroups"]))
        tensors = {GRAPH: as_tensor(head)} | ({MALIGNANCY: to_tensor([at], at_most)} if at else {})
        message = Broadcast(client.id, CALIBRATE, 0, ask, GLOBAL, tensors, {**request, ENCODER: DIGEST})
        return answer_calibration(message, client).tensors

    return client, asked


def read_histogram(asked, client):
    """The merged histogram that leaves anyway, two rows of each subgroup, `(rows, bins)`."""
    return asked(client, None, ask=MALIGNANCY)[MALIGNANCY].numpy().reshape(-1, SCORE_BINS)


def listed(asked, client, releases):
    """What answers to all requests tell of single bins, `(rows, bins)`."""
    found = np.zeros((4, SCORE_BINS), dtype=np.int64)
    for request in REQUESTS:
        answer = asked(replace(client, releases=releases()), request)[BETWEEN].numpy()
        found[:, request.start : request.start + STEPS - 1] = answer[:, 1:STEPS]
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
    assert 0 < exact[0][exact[0] > 0].min() < LEAST // 2, "the control: single patients, every request first"
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
    request = EvaluateRequest(split="calibration", subgroups=("light",), patterns=patterns)
    assert has_each_view_once(request) is exact
    assert not has_each_view_once(request.model_copy(update={"left_out": ("context",)}))


def test_the_account_is_kept_by_hospital_and_model():
    store = MemoryReleases()
    asked = [("north", "a", "1"), ("north", "a", "2"), ("north", "b", "2"), ("south", "a", "2")]
    assert [is_first_request(store, *each, LEAST) for each in asked] == [True, False, True, True]
    assert is_first_request(store, *asked[0], LEAST)
    assert not list(store.all("north")), "the account of answers does not look at it"


# Which lesions a node of the tree of diagnoses is asked of depends on thresholds, too.

TREE = Tree(GROUPED)
MELANOMA, GROUP, SIDE = 2, 1, 2  # the node of finer levels that the attacker wants scores of, and two levels
KEEPS = {"process": lambda _: MemoryReleases(), "disk": FolderReleases}


@pytest.fixture
def tree_judge(calibrating, make_client, make_dataset, monkeypatch):
    """A hospital of 500 lesions of four classes, how it is asked about nodes, and what is said of them."""
    score_by(monkeypatch, made_up(len(GROUPED)))
    sizes = {"north": {"light": (300, 2, 2, 2), "dark": (200, 2, 2, 2)}}
    data = replace(make_dataset(sizes), labels=GROUPED)
    client, head = make_judge(calibrating, make_client("north", data=data, job=calibrating))
    said = made_up(len(GROUPED))(client.examples("train"))

    def asked(client, triage=0, finer=SCORE_BINS, level=GROUP, ask=NODES, producer="", **settings):
        """How many lesions are left at each node of a level: all, and wrong ones, `(nodes, 2)`."""
        so_far = np.full((1, len(TREE.nodes)), SCORE_BINS)
        so_far[0, MELANOMA] = finer
        named = NodesAsked(level, so_far, np.array([[triage, SCORE_BINS]]))
        model = onnx.load_from_string(head)
        model.producer_name += producer
        tensors = {GRAPH: as_tensor(model.SerializeToString()), **named.to_tensors()}
        if ask == AT_THRESHOLDS:
            tensors[NODES] = to_tensor([[]] * len(TREE.levels[level]), STEPS)
        request = EvaluateRequest(
            **{"split": "train", "subgroups": ("light", "dark"), **settings}
        ).model_dump()
        message = Broadcast(client.id, CALIBRATE, 0, ask, GLOBAL, tensors, {**request, ENCODER: DIGEST})
        answer = answer_calibration(message, client).tensors[NODES if ask == NODES else BETWEEN].numpy()
        return answer.reshape(len(TREE.levels[level]), 2, -1).sum(axis=2)

    return client, asked, said


def bins_with_few(bins, of):
    """The score bins below the highest in which few of some lesions lie, and how many."""
    counts = np.bincount(bins[of], minlength=SCORE_BINS)
    return [(int(at), int(counts[at])) for at in np.flatnonzero((counts > 0) & (counts < LEAST // 2))]


def read_between(asked, client, releases, at, what, ask=NODES):
    """What the attacker takes for the number of lesions in one bin: from answers a bin apart."""
    answers = [
        asked(replace(client, releases=releases()), ask=ask, **{what: threshold})
        for threshold in (at, at + 1)
    ]
    return int(np.abs(answers[1] - answers[0])[:, 0].sum()), answers[1]


@pytest.mark.parametrize("where", KEEPS)
@pytest.mark.parametrize("ask", [NODES, AT_THRESHOLDS])
@pytest.mark.parametrize("what", ["triage", "finer"])
def test_two_sets_of_finer_thresholds_do_not_tell_what_lies_between(tree_judge, tmp_path, what, ask, where):
    client, asked, said = tree_judge
    if what == "triage":
        few = bins_with_few(score_bin(1 - said[:, -1]), (said[:, -1] > 0.6) & (said[:, -1] < 0.8))
    else:
        few = bins_with_few(score_bin(said[:, MELANOMA]), said[:, MELANOMA] > 0.8)
    assert len(few) > 5
    read = [read_between(asked, client, MemoryReleases, at, what, ask)[0] for at, _ in few]
    assert read == [n for _, n in few], "the control: every request first"
    for number, (at, _) in enumerate(few[:5]):
        account = KEEPS[where](tmp_path / str(number))
        first = asked(replace(client, releases=account), ask=ask, **{what: at})
        assert first.any()
        assert not read_between(asked, client, lambda: account, at, what, ask)[1].any()  # noqa: B023
        again = asked(replace(client, releases=account), ask=ask, **{what: at})
        np.testing.assert_array_equal(again, first, "the first again, after a restart")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "other",
    [{"level": SIDE}, {"subgroups": ("light",)}, {"one_per_lesion": True}, {"ask": AT_THRESHOLDS}],
    ids=["coarser", "of a part", "of fewer pictures", "at thresholds"],
)
def test_nor_where_the_second_question_is_another_one(tree_judge, caplog, other, masked):
    client, asked, said = tree_judge
    client = replace(client, masked=masked)
    at, _ = bins_with_few(score_bin(said[:, MELANOMA]), said[:, MELANOMA] > 0.8)[0]
    kept = replace(client, releases=MemoryReleases())
    assert asked(kept, finer=at).any()
    assert not caplog.records
    forgetful = replace(client, releases=MemoryReleases())
    expected = asked(forgetful, finer=at + 1, **other)
    assert expected.any(), "the control"
    assert not asked(kept, finer=at + 1, **other).any()
    assert not asked(kept, finer=at + 1, **other).any()
    assert [record.message for record in caplog.records if "tree of diagnoses" in record.message] == [
        f"north: no lesions are counted at level {other.get('level', GROUP)} of the tree of diagnoses: other "
        "thresholds of triage or of finer levels were named of this model before, and the difference would "
        "count the lesions between (privacy.min_count)"
    ]
    assert asked(kept, finer=at, **other).any(), "an honest run goes on"


def test_what_is_left_is_a_model_that_differs_by_a_byte(tree_judge):
    """As of counts at thresholds: models of the coordinator's making are other models (docs/privacy.md)."""
    client, asked, said = tree_judge
    at, n = bins_with_few(score_bin(said[:, MELANOMA]), said[:, MELANOMA] > 0.8)[0]
    kept = replace(client, releases=MemoryReleases())
    first, second = asked(kept, finer=at), asked(kept, finer=at + 1, producer="!")
    assert np.abs(second - first)[:, 0].sum() == n


@pytest.mark.parametrize(
    ("sets", "named"),
    [
        ((), ["[]"]),
        (((),), ["[]"]),
        ((("close-up",), ("close-up", "close-up")), ["['close-up']", "['close-up']"]),
        ((("close-up+dermoscopic",), ("dermoscopic+close-up",)), ["['close-up+dermoscopic']"] * 2),
        ((("close-up", "dermoscopic"), ("dermoscopic", "close-up")), ["['close-up', 'dermoscopic']"] * 2),
    ],
)
def test_a_view_is_the_same_however_its_patterns_are_spelled(sets, named):
    """Else the same view could be asked about with other thresholds, in one request or two."""
    request = EvaluateRequest(split="calibration", subgroups=("light",), patterns=sets)
    assert [name.split(f" {DIGEST}")[0] for name in names_in_views(DIGEST, request)] == named
