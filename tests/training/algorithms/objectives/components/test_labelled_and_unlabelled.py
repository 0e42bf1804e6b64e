import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.objectives.components.labelled_and_unlabelled import Streams


def streams(labelled, unlabelled, **changes):
    labels = np.array([0, 1] * labelled)[:labelled].tolist() + [-1] * unlabelled
    given_ = {"batch_size": 4, "ratio": 1, "samples": None, "sampling": "uniform"} | changes
    return Streams(np.array(labels), **given_)


@given(
    labelled=st.integers(0, 40),
    unlabelled=st.integers(0, 40),
    samples=st.integers(4, 50),
    ratio=st.integers(1, 3),
    sampling=st.sampled_from(["uniform", "class-balanced"]),
)
def test_every_virtual_client_takes_the_same_number_of_pictures_and_steps(
    labelled, unlabelled, samples, ratio, sampling
):
    if labelled + unlabelled == 0:
        return
    source = streams(labelled, unlabelled, samples=samples, ratio=ratio, sampling=sampling)
    batches = list(source.batches(np.random.default_rng(0)))
    assert len(batches) == -(-samples // 4)
    taken = [sum(len(part) for part in parts) for parts in zip(*batches, strict=True)]
    assert taken == [samples * bool(labelled), ratio * samples * bool(unlabelled)]
    for first, second in batches:
        assert len(first) <= 4
        assert (first < labelled).all()
        assert (second >= labelled).all()


def test_no_batch_is_of_one_picture():
    batches = list(streams(9, 0, batch_size=2, samples=5).batches(np.random.default_rng(0)))
    assert [len(first) for first, _ in batches] == [3, 2]


def test_large_clients_are_parted_and_small_ones_repeat():
    large, small = streams(20, 0, samples=8), streams(3, 0, samples=8)
    drawn = np.concatenate([first for first, _ in large.batches(np.random.default_rng(1))])
    assert len(set(drawn)) == 8
    again = np.concatenate([first for first, _ in small.batches(np.random.default_rng(1))])
    assert sorted(np.bincount(again)) == [2, 3, 3]


@pytest.mark.parametrize(
    ("labelled", "unlabelled", "ratio", "steps"), [(5, 30, 1, 8), (30, 5, 1, 8), (5, 30, 3, 3)]
)
def test_without_a_number_the_stream_of_more_batches_is_seen_once(labelled, unlabelled, ratio, steps):
    source = streams(labelled, unlabelled, ratio=ratio)
    batches = list(source.batches(np.random.default_rng(2)))
    assert len(batches) == steps
    first, second = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    assert set(first) == set(range(labelled))
    assert set(second) == set(range(labelled, labelled + unlabelled))


def test_the_draws_follow_from_the_generator():
    def order(seed):
        return [
            part.tolist() for batch in streams(9, 7).batches(np.random.default_rng(seed)) for part in batch
        ]

    assert order(3) == order(3)
    assert order(3) != order(4)
