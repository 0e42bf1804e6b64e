"""A coordinator asks a hospital with a frozen encoder everything it may, and looks for features of pictures.

With features an attacker draws the pictures again (Mahendran and Vedaldi 2015); so they must not leave,
neither as an answer of their own nor in one to another question.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from personalization.stages.calibration_answers import MEANS, QUESTIONS, WHITENING
from personalization.stages.calibration_features import SUBGROUPS, place_of
from tests.training.conftest import FEDERATE
from training.algorithms.features import weights_digest
from training.data.dataset import SPLITS
from training.errors import TrainingError
from training.federation.blocks import EvaluateQuestion
from training.federation.client.embed import ENCODER
from training.federation.questions import COLLECT, EMBED, EVALUATE, FIT, OPEN, TEST
from training.jobs.client_app import answer_privately
from training.messages.message import GLOBAL, Broadcast, reply
from training.models import build_model
from training.models.export import GRAPH, as_tensor, export_graph
from training.models.graph_parts import split_graph
from training.models.groups import float_state

STAGE, CALIBRATE, DIGEST = "0-federate", "2-calibrate", "d" * 64


@pytest.fixture
def job(make_job, tmp_path):
    """A job whose encoder is frozen."""
    path = tmp_path / "encoder.safetensors"
    weights = float_state(build_model(make_job().model, 2, seed=11))
    save_file({name.removeprefix("encoder."): tensor for name, tensor in weights.items()}, path)
    head = {"trains": {"name": "head", "views": 1}, "objective": {"batch_size": 2}}
    return make_job(federate=head, model={"weights": str(path)})


@pytest.fixture
def client(job, make_client):
    """A hospital that has made its features."""
    made = make_client("north", job=job)
    answer_privately(job, embed(made), made)
    return made


def embed(client):
    """The question that has features made, with the encoder that the client has."""
    model = client.local_model
    head = set(model.model.head_names)
    encoder = model.take(tuple(name for name in model.names if name not in head))
    return Broadcast(client.id, STAGE, 0, EMBED, GLOBAL, encoder, {ENCODER: weights_digest(encoder)})


def features_of(client):
    """The features that the client keeps, `(rows, width)`."""
    found = [client.features.find(client.store, client.id, STAGE, split)[1].features for split in SPLITS]
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


def everything(client):
    """Each question that the protocol has, as it would be asked about the model behind the encoder."""
    head = float_state(client.local_model.behind_encoder().model)
    judged = EvaluateQuestion(split="validation", subgroups=("light", "dark")).model_dump()
    tested = EvaluateQuestion(split="test", subgroups=("light", "dark")).model_dump()
    asked = {FIT: {}, EVALUATE: judged, TEST: tested, COLLECT: {}, OPEN: {}, "features": {}, "kept": {}}
    return [
        embed(client),
        *(Broadcast(client.id, STAGE, 1, ask, GLOBAL, head, options) for ask, options in asked.items()),
    ]


def test_where_features_left_they_would_be_found(client):
    kept = features_of(client)
    assert len(kept) > 40
    leaking = reply(embed(client), tensors={"extra": torch.from_numpy(kept[3:9]).float()})
    assert told(leaking, kept) >= 6


def test_no_answer_holds_one(job, client):
    kept = features_of(client)
    answered = []
    for question in everything(client):
        try:
            update = answer_privately(job, question, client)
        except (TrainingError, AssertionError):  # not a question of this stage
            continue
        answered.append(question.ask)
        assert told(update, kept) == 0, question.ask
    assert {EMBED, FIT, EVALUATE, TEST} <= set(answered)


def test_the_answer_to_making_them_is_empty(job, client):
    update = answer_privately(job, embed(client), client)
    assert not update.tensors
    assert not update.scalars
    assert not update.num_examples


def test_another_encoder_than_the_one_that_is_named_is_refused(job, client):
    question = embed(client)
    other = {name: tensor + 1 for name, tensor in question.tensors.items()}
    with pytest.raises(TrainingError, match="other weights of the encoder than the coordinator"):
        answer_privately(job, replace(question, tensors=other), client)


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
    beside = {
        MEANS: torch.zeros(2, kept.shape[1], dtype=torch.float64),
        WHITENING: torch.eye(kept.shape[1], dtype=torch.float64),
    }
    for ask in QUESTIONS:
        for split in SPLITS:
            question = EvaluateQuestion(split=split, subgroups=("light", "dark")).model_dump()
            tensors = {GRAPH: as_tensor(head), **beside}
            asked = Broadcast(client.id, CALIBRATE, 0, ask, GLOBAL, tensors, {**question, ENCODER: DIGEST})
            assert told(answer_privately(job, asked, client), kept) == 0, ask


def test_a_graph_of_which_no_features_were_made_is_refused(judge):
    job, client, head = judge
    question = EvaluateQuestion(split="test", subgroups=("light",)).model_dump()
    tensors, options = {GRAPH: as_tensor(head)}, {**question, ENCODER: "0" * 64}
    with pytest.raises(TrainingError, match="has no features of its test pictures"):
        answer_privately(job, Broadcast(client.id, CALIBRATE, 0, "counts", GLOBAL, tensors, options), client)
