"""What an epoch draws."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.objectives.epochs import Streams, class_weights, epoch_order, in_batches

CPU = torch.device("cpu")
LABELS = np.array([0] * 90 + [1] * 9 + [4])


def test_uniform_is_a_permutation():
    order = epoch_order(LABELS, "uniform", np.random.default_rng(0))
    assert sorted(order) == list(range(100))
    assert list(order) != list(range(100))


def test_class_balanced_expects_every_class_that_is_held_equally_often():
    rng = np.random.default_rng(0)
    drawn = np.concatenate([LABELS[epoch_order(LABELS, "class-balanced", rng)] for _ in range(300)])
    # 30,000 draws of probability 1/3: the share's standard deviation is 0.0027.
    shares = [np.mean(drawn == label) for label in (0, 1, 4)]
    assert shares == pytest.approx([1 / 3] * 3, abs=4 * 0.0027)


def test_subgroup_balanced_expects_every_class_of_every_subgroup_equally_often():
    # Subgroup 1 holds class 0 twice and class 1 once; undeclared pictures are of class 0; the rest is 0's.
    subgroups = np.array([1, 1, *[0] * 80, *[-1] * 8, 1, *[0] * 9])
    rng = np.random.default_rng(0)
    drawn = np.concatenate(
        [epoch_order(LABELS, "subgroup-balanced", rng, samples=100, subgroups=subgroups) for _ in range(300)]
    )
    cells = [(0, 1), (0, 0), (0, -1), (1, 1), (1, 0), (4, 0)]
    # 30,000 draws of probability 1/6: the share's standard deviation is 0.0022.
    shares = [np.mean((LABELS[drawn] == label) & (subgroups[drawn] == group)) for label, group in cells]
    assert shares == pytest.approx([1 / 6] * 6, abs=4 * 0.0022)


def test_a_last_batch_of_one_joins_the_one_before():
    assert [len(batch) for batch in in_batches(np.arange(9), 4)] == [4, 5]
    assert [len(batch) for batch in in_batches(np.arange(10), 4)] == [4, 4, 2]
    assert [len(batch) for batch in in_batches(np.arange(3), 4)] == [3]


@pytest.mark.parametrize("sampling", ["uniform", "class-balanced"])
@pytest.mark.parametrize("samples", [1, 40, 100, 250])
def test_a_virtual_client_draws_as_many_pictures_as_it_should(sampling, samples):
    order = epoch_order(LABELS, sampling, np.random.default_rng(0), samples)
    assert len(order) == samples
    if sampling == "uniform":
        times = np.bincount(order, minlength=100)
        assert times.max() - times.min() <= 1, "none comes again before all have come as often"


def test_class_weights_by_hand():
    # 100 pictures of three classes: 100 / (3 · 90), 100 / (3 · 9), 100 / (3 · 1); classes 2 and 3 have none.
    weights = class_weights(LABELS, 6, "inverse-frequency", CPU).numpy()
    np.testing.assert_allclose(weights, [100 / 270, 100 / 27, 0, 0, 100 / 3, 0], rtol=1e-6)
    assert np.mean(weights[LABELS]) == pytest.approx(1)
    assert class_weights(LABELS, 6, "none", CPU) is None


def test_pictures_without_a_label_have_no_say_in_class_weights():
    some = np.array([0, -1, -1, 1, -1, 1])
    np.testing.assert_allclose(class_weights(some, 2, "inverse-frequency", CPU), [3 / 2, 3 / 4])
    assert class_weights(np.array([-1, -1]), 2, "inverse-frequency", CPU).tolist() == [0, 0]


def test_square_root_sampling_expects_each_class_as_its_root():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 3], [100, 25, 4])
    drawn = np.concatenate([labels[epoch_order(labels, "square-root", rng)] for _ in range(300)])
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(shares, np.array([10, 5, 0, 2]) / 17, atol=0.01)


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
