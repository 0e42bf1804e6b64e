"""MoCo against a plain loop, and the bank of features against a deque."""

import math
from collections import deque

import numpy as np
import pytest
import torch

from training.algorithms.objectives.moco import MoCo, info_nce
from training.errors import DataError
from training.models.classifier import to_model_input


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def naive(query, keys, negatives, temperature):
    """Eq. 6 picture by picture and negative by negative."""
    losses = []
    for q, k in zip(query, keys, strict=True):
        positive = math.exp(float(q @ k) / temperature)
        others = 0.0
        for n in negatives:
            others += math.exp(float(q @ n) / temperature)
        losses.append(-math.log(positive / (positive + others)))
    return np.array(losses)


@pytest.mark.parametrize(("pictures", "negatives"), [(1, 1), (4, 3), (3, 11)])
@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0])
def test_the_loss_is_the_double_loop(pictures, negatives, temperature):
    random = np.random.default_rng(pictures)
    q, k, bank = (unit(random.normal(size=(count, 5))) for count in (pictures, pictures, negatives))
    ours = info_nce(*(torch.from_numpy(rows) for rows in (q, k, bank)), temperature)
    np.testing.assert_allclose(ours, naive(q, k, bank, temperature), rtol=1e-10)


def features_of(network, images):
    """A feature at a time from the projected embeddings; batch norm sees the batch as in training."""
    with torch.no_grad():
        hidden = network.embed(images)
        first, second = network.heads["projector"][0], network.heads["projector"][2]
        rows = torch.relu(hidden @ first.weight.T + first.bias) @ second.weight.T + second.bias
    return unit(rows.double().numpy())


def remote_features(count, width=8):
    return torch.from_numpy(unit(np.random.default_rng(3).normal(size=(count, width)))).float()


def settings(**changes):
    return MoCo(**{"batch_size": 5, "features": 8, **changes})


def own_pictures(count=18):
    """Of which of north's pictures a kept bank is, in an order that is not theirs."""
    return torch.from_numpy(np.random.default_rng(5).permutation(18)[:count].copy())


CASES = {
    "alone": ({}, None),
    "alone with a short queue": ({"queue": 7}, None),
    "alone and warm": ({"temperature": 0.7}, None),
    "shared": ({}, 30),
    "shared with few of the others": ({}, 3),
    "shared with batches as large as the bank": ({"batch_size": 100}, 30),
    "remote alone": ({"local_negatives": False}, 30),
    "remote alone and few": ({"local_negatives": False}, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_the_negatives_are_those_of_a_deque_at_every_step(begin_followed, work_of, case):
    """Each with the picture that it is of; those of the query's own picture are none."""
    changes, count = CASES[case]
    config = settings(**changes)
    received = {} if count is None else {"features": remote_features(count)}
    capacity = min(config.queue, 18)
    kept = {"features": remote_features(capacity).flip(1), "pictures": own_pictures(capacity)}
    task, network, _ = begin_followed(config, kept=kept, received=received)
    pictures = kept["pictures"].tolist()
    local = deque(zip(kept["features"].double().numpy(), pictures, strict=True), maxlen=capacity)
    remote = [(row, None) for row in received["features"].double().numpy()] if received else None
    if remote is None:
        negatives = local
    else:
        start = local if config.local_negatives else remote
        negatives = deque(start, maxlen=len(start))
    draws = work_of("north", "0-pretrain").torch_generator("remote features")
    for batch in task.batches(0):
        first, second = batch.images.chunk(2)
        queries, keys = features_of(network, first), features_of(network, second)
        expected = [
            naive([query], [key], [row for row, one in negatives if one != shown], config.temperature)
            for query, key, shown in zip(queries, keys, batch.positions, strict=True)
        ]
        assert task.loss(batch).item() == pytest.approx(np.mean(expected), rel=1e-4)
        task.after_step()  # No optimizer: network and follower stay what they are.
        size = len(negatives)
        latest = list(zip(keys, batch.positions.tolist(), strict=True))
        local.extend(latest)
        if remote is not None:
            drawn = [remote[place] for place in torch.randperm(len(remote), generator=draws)[: len(keys)]]
            assert len({tuple(row) for row, _ in drawn}) == min(len(keys), len(remote))
            if config.local_negatives:
                drawn = latest + drawn
                drawn = [drawn[place] for place in torch.randperm(len(drawn), generator=draws)]
            negatives.extend(drawn)
        assert len(negatives) == size
    np.testing.assert_allclose(task.keep()["features"], np.stack([row for row, _ in local]), atol=1e-5)
    assert task.keep()["pictures"].tolist() == [picture for _, picture in local]
    assert set(task.outgoing()) == (set() if remote is None else {"features"})
    if remote is not None:
        assert torch.equal(task.outgoing()["features"], task.keep()["features"])


def test_queries_are_the_networks_and_keys_the_followers(begin_followed):
    first, network, frozen_copy = begin_followed(settings(momentum_encoder="keep"))
    with torch.no_grad():
        for parameter in frozen_copy.parameters():
            parameter.mul_(-0.7).add_(0.02)
    kept = {**first.keep(), "features": remote_features(18), "pictures": torch.full((18,), -1)}
    task, network, frozen_copy = begin_followed(settings(momentum_encoder="keep"), kept=kept)
    batch = next(task.batches(0))
    queries, keys = (
        features_of(side, view)
        for side, view in zip((network, frozen_copy), batch.images.chunk(2), strict=True)
    )
    expected = naive(queries, keys, kept["features"].double().numpy(), 0.2)
    assert task.loss(batch).item() == pytest.approx(expected.mean(), rel=1e-4)


@pytest.mark.parametrize(("queue", "held"), [(4096, 18), (7, 7), (1, 1)])
def test_a_first_bank_is_of_the_pictures_as_they_are(begin_followed, work_of, dataset, queue, held):
    task, network, _ = begin_followed(settings(queue=queue, batch_size=100))
    bank = task.keep()["features"].numpy()
    examples = dataset.examples("north", "train")
    order = work_of("north", "0-pretrain").numpy_generator("first features").permutation(18)[: max(held, 2)]
    expected = features_of(network, to_model_input(examples.batch(order), torch.device("cpu")))[:held]
    np.testing.assert_allclose(bank, expected, atol=1e-5)


def test_what_opens_the_exchange_is_what_a_first_bank_is_made_of(begin_followed, work_of):
    task, network, _ = begin_followed(settings(queue=9))
    opened = settings(queue=9).open(network, work_of("north", "0-pretrain"))
    assert set(opened) == {"features"}
    torch.testing.assert_close(opened["features"], task.keep()["features"])
    np.testing.assert_allclose(opened["features"].norm(dim=1), 1, rtol=1e-5)


def test_a_client_with_one_picture_is_refused(begin_followed, dataset):
    one = dataset.examples("north", "train").where(np.arange(18) == 4)
    with pytest.raises(DataError, match="north has fewer than two pictures to train on with moco"):
        begin_followed(settings(), examples=one)


@pytest.mark.parametrize(("head_norm", "alike"), [(False, True), (True, False)])
def test_a_normed_head_spreads_the_features_of_an_encoder_that_knows_nothing(
    begin_followed, head_norm, alike
):
    """Without it the features of all pictures lie close together, and as close to another encoder's."""
    task, _, _ = begin_followed(MoCo(features=16, batch_size=18, head_norm=head_norm))
    centre = task.keep()["features"].mean(dim=0)
    assert (float(torch.linalg.vector_norm(centre)) > 0.5) == alike
