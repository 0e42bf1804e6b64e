"""A coordinator asks a hospital with a frozen encoder everything it may, and looks for features of pictures.

With features an attacker draws the pictures again (Mahendran and Vedaldi 2015); so they must not leave,
neither as an answer of their own nor in one to another request.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from personalization.calibration.triage import most_thresholds
from personalization.stages.calibration_answers import (
    MALIGNANCY,
    MEANS,
    REQUESTS,
    TONES,
    WHITENING,
    NodesAsked,
)
from personalization.stages.calibration_features import SUBGROUPS, place_of
from registry.bundle.conclusions import Tree
from registry.bundle.score_bins import SCORE_BINS
from tests.training.conftest import FEDERATE
from training.algorithms.client import MemoryReleases, weights_digest
from training.data.dataset import SPLITS
from training.errors import TrainingError
from training.jobs.client_app import answer_privately
from training.messages import GLOBAL, Broadcast, reply
from training.models import build_model
from training.models.classifier import float_state
from training.models.export import GRAPH, as_tensor, export_graph, split_graph
from training.rounds.client.embed import ENCODER
from training.rounds.requests import COLLECT, EMBED, EVALUATE, FIT, NEIGHBOURS, OPEN, TEST, EvaluateRequest

CALIBRATE, DIGEST = "2-calibrate", "d" * 64
SUPERVISED = {"name": "supervised", "batch_size": 2}


@pytest.fixture(params=["head", "probe"])
def job(request, make_job, tmp_path):
    """A job whose encoder is frozen: a head learns on it, or it is probed."""
    path = tmp_path / "encoder.safetensors"
    weights = float_state(build_model(make_job().model, 2, seed=11))
    save_file({name.removeprefix("encoder."): tensor for name, tensor in weights.items()}, path)
    stages = {
        "head": {"federate": {"trainable": {"name": "head", "views": 1}, "objective": SUPERVISED}},
        "probe": {"stages": [{"stage": "probe", "rounds": 2, "objective": SUPERVISED, "neighbours": 1}]},
    }
    return make_job(**stages[request.param], model={"weights": str(path)})


@pytest.fixture
def client(job, make_client):
    """A hospital that has made its features."""
    made = make_client("north", job=job)
    answer_privately(job, embed(job, made), made)
    return made


def embed(job, client):
    """The request that has features made, with the encoder that the client has."""
    model = client.local_model
    head = set(model.model.head_names)
    encoder = model.take(tuple(name for name in model.names if name not in head))
    return Broadcast(client.id, job.key(0), 0, EMBED, GLOBAL, encoder, {ENCODER: weights_digest(encoder)})


def features_of(job, client):
    """The features that the client keeps, `(rows, width)`."""
    found = [client.features.find(client.store, client.id, job.key(0), split)[1].features for split in SPLITS]
    return np.concatenate(found).astype(np.float64)


def told(update, features):
    """How many of the features stand in some tensor of an answer, to half precision."""
    width = features.shape[1]
    count = 0
    for tensor in update.tensors.values():
        values = tensor.double().numpy().reshape(-1)
        if len(values) < width:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(values, width)
        count += sum(np.isclose(windows, row, rtol=2e-3, atol=1e-4).all(axis=1).any() for row in features)
    return count


def everything(job, client):
    """Each request that the protocol has, as it would be asked about what learns behind the encoder."""
    whole = client.local_model
    behind = whole.linear_probe() if job.stages[0].keeps_model else whole.behind_encoder()
    head = float_state(behind.model)
    judged = EvaluateRequest(split="validation", subgroups=("light", "dark")).model_dump()
    tested = EvaluateRequest(split="test", subgroups=("light", "dark")).model_dump()
    asked = {FIT: {}, EVALUATE: judged, TEST: tested, COLLECT: {}, OPEN: {}, "features": {}, "kept": {}}
    asked |= {NEIGHBOURS: {**tested, "split": "validation"}}
    return [
        embed(job, client),
        *(Broadcast(client.id, job.key(0), 1, ask, GLOBAL, head, options) for ask, options in asked.items()),
    ]


def test_where_features_left_they_would_be_found(job, client):
    kept = features_of(job, client)
    assert len(kept) > 40
    leaking = reply(embed(job, client), tensors={"extra": torch.from_numpy(kept[3:9]).float()})
    assert told(leaking, kept) >= 6


def test_no_answer_holds_one(job, client):
    kept = features_of(job, client)
    answered = []
    for request in everything(job, client):
        try:
            update = answer_privately(job, request, client)
        except (TrainingError, AssertionError):  # not a request of this stage
            continue
        answered.append(request.ask)
        assert told(update, kept) == 0, request.ask
    assert {EMBED, FIT, TEST, NEIGHBOURS if job.stages[0].keeps_model else EVALUATE} <= set(answered)


def test_the_answer_to_making_them_is_empty(job, client):
    update = answer_privately(job, embed(job, client), client)
    assert not update.tensors
    assert not update.scalars
    assert not update.num_examples


def test_another_encoder_than_the_one_that_is_named_is_refused(job, client):
    request = embed(job, client)
    other = {name: tensor + 1 for name, tensor in request.tensors.items()}
    with pytest.raises(TrainingError, match="other weights of the encoder than the coordinator"):
        answer_privately(job, replace(request, tensors=other), client)


@pytest.mark.parametrize("job", ["probe"], indirect=True)
def test_neighbours_are_counts_of_enough_patients_whatever_is_asked_beside(job, client):
    """No request says how many neighbours vote, brings pictures of its own, or gets past the door."""
    tested = EvaluateRequest(split="test", subgroups=("light", "dark")).model_dump()
    asked = Broadcast(client.id, job.key(0), 1, NEIGHBOURS, GLOBAL, {}, tested)
    counts = answer_privately(job, asked, client)
    assert {name.partition("/")[2] for name in counts.tensors} == {"light", "dark"}
    assert not counts.scalars
    assert not counts.losses
    loaded = replace(asked, tensors={"features": torch.zeros(1, 32), "labels": torch.zeros(1)})
    same = answer_privately(job, loaded, client)
    assert all(torch.equal(counts.tensors[name], tensor) for name, tensor in same.tensors.items())
    with pytest.raises(ValueError, match="neighbours"):
        answer_privately(job, replace(asked, options={**tested, "neighbours": 1}), client)
    few = replace(client, min_count=17, releases=MemoryReleases())  # 18 training pictures of 17 patients
    assert not answer_privately(job, asked, few).tensors, "6 and 4 test pictures"


@pytest.fixture
def judge(make_job, make_client):
    """A hospital that has made features to judge an exported graph by, and the job."""
    job = make_job(stages=[FEDERATE, {"stage": "export"}, {"stage": "calibrate"}])
    client = make_client("north", job=job)
    parts = split_graph(export_graph(client.local_model.model, job.data.image_size))
    tensors, options = {GRAPH: as_tensor(parts.encoder)}, {ENCODER: DIGEST, SUBGROUPS: ["light", "dark"]}
    made = answer_privately(job, Broadcast(client.id, CALIBRATE, 0, EMBED, GLOBAL, tensors, options), client)
    assert not made.tensors
    return job, client, parts.head


def test_no_answer_about_a_graph_holds_one(judge):
    job, client, head = judge
    found = [
        client.features.find(client.store, client.id, place_of(CALIBRATE, DIGEST), split)[1].features
        for split in SPLITS
    ]
    kept = np.concatenate(found).astype(np.float64)
    kept = kept[(kept > 0.1).sum(axis=1) > 3]  # a row of noughts is in every histogram
    assert len(kept) > 25
    nodes = len(Tree(client.dataset.labels).nodes)
    beside = {
        MALIGNANCY: torch.full((1, most_thresholds(2)), 160, dtype=torch.int32),
        **NodesAsked(0, np.full((1, nodes), SCORE_BINS), np.array([[160, 160]])).to_tensors(),
        MEANS: torch.zeros(2, kept.shape[1], dtype=torch.float64),
        WHITENING: torch.eye(kept.shape[1], dtype=torch.float64),
    }
    for ask in REQUESTS:
        for split in SPLITS:
            request = EvaluateRequest(split=split, subgroups=("light", "dark")).model_dump()
            tensors = {GRAPH: as_tensor(head), **beside}
            options = request if ask == TONES else {**request, ENCODER: DIGEST}
            asked = Broadcast(client.id, CALIBRATE, 0, ask, GLOBAL, tensors, options)
            assert told(answer_privately(job, asked, client), kept) == 0, ask


def test_a_graph_of_which_no_features_were_made_is_refused(judge):
    job, client, head = judge
    request = EvaluateRequest(split="test", subgroups=("light",)).model_dump()
    tensors, options = {GRAPH: as_tensor(head)}, {**request, ENCODER: "0" * 64}
    with pytest.raises(TrainingError, match="has no features of its test pictures"):
        answer_privately(job, Broadcast(client.id, CALIBRATE, 0, "counts", GLOBAL, tensors, options), client)
