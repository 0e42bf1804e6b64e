"""Gaussians from clients' sums against scikit-learn and NumPy on all pictures in one place."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import empirical_covariance
from sklearn.covariance import oas as sklearn_oas

from personalization.calibration.mahalanobis import (
    ClassSums,
    class_sums,
    distances_left_out,
    fit_gaussians,
    left_out_of,
    shapes,
    shrink_covariance,
    total,
)
from training.errors import MessageError
from training.messages import Update

CLASSES, FEATURES = 3, 6


def drawn(seed: int, n: int = 90, features: int = FEATURES) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings with correlated features far from zero, and labels of unequal classes."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(CLASSES, n, p=[0.6, 0.3, 0.1])
    means = rng.normal(20, 5, (CLASSES, features))
    mixing = rng.normal(size=(features, features))
    return (means[labels] + rng.normal(size=(n, features)) @ mixing).astype(np.float32), labels


def about_means(embedding: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Each picture's embedding less its class's mean."""
    whole = embedding.astype(np.float64)
    return whole - np.stack([whole[labels == label].mean(axis=0) for label in labels])


def received(sums: ClassSums, **changed: torch.Tensor) -> ClassSums:
    """The sums as they arrive: the same, if nothing is changed on the way."""
    tensors = {**sums.to_tensors(), **changed}
    assert {name: tensor.shape for name, tensor in tensors.items()} == shapes(*sums.sums.shape)
    update = Update("north", "0-calibrate", 0, "embeddings", "global", tensors)
    found = ClassSums.from_update(update, sums.sums.shape[1])
    for name in ("pictures", "sums", "scatter"):
        assert name in changed or (getattr(found, name) == getattr(sums, name)).all()
    return found


def test_sums_by_hand():
    embedding = np.array([[1, 2], [3, 2], [5, 5], [7, 9]], np.float32)
    sums = class_sums(embedding, np.array([0, 0, 2, 2]), 3, min_count=2)
    assert sums.pictures.tolist() == [2, 0, 2]
    assert sums.sums.tolist() == [[4, 4], [0, 0], [12, 14]]
    # Class 0 is ±(1, 0) about its mean, class 2 is ±(1, 2).
    assert sums.scatter.tolist() == [[2 + 2, 4], [4, 8]]


def test_a_class_with_few_pictures_is_nowhere_in_the_sums():
    embedding, labels = drawn(0)
    few = int((labels == 2).sum())
    with_it = class_sums(embedding, labels, CLASSES, min_count=few + 1)
    without = class_sums(embedding[labels != 2], labels[labels != 2], CLASSES, min_count=1)
    for name in ("pictures", "sums", "scatter"):
        np.testing.assert_array_equal(getattr(with_it, name), getattr(without, name))
    assert class_sums(embedding, labels, CLASSES, min_count=few).pictures[2] == few


@given(seed=st.integers(0, 2**32), clients=st.integers(1, 5), min_count=st.integers(1, 4))
def test_clients_sums_add_up_to_those_of_all_their_pictures(seed, clients, min_count):
    embedding, labels = drawn(seed)
    holder = np.random.default_rng(seed).integers(0, clients, len(labels))
    parts = [
        class_sums(embedding[holder == c], labels[holder == c], CLASSES, min_count) for c in range(clients)
    ]
    told = np.array([parts[c].pictures[label] > 0 for c, label in zip(holder, labels, strict=True)])
    whole = class_sums(embedding[told], labels[told], CLASSES, 1)
    for order in (parts, parts[::-1]):
        added = total(order, CLASSES, FEATURES)
        np.testing.assert_array_equal(added.pictures, whole.pictures)
        np.testing.assert_allclose(added.sums, whole.sums, rtol=1e-12)
        np.testing.assert_allclose(added.scatter, whole.scatter, rtol=1e-9, atol=1e-9)


def test_a_scatter_far_from_zero_is_not_lost():
    """Embeddings around 10⁶ that differ by thousandths: products of whole embeddings would drown them."""
    rng = np.random.default_rng(2)
    small = rng.normal(0, 2**-4, (200, 2)).astype(np.float32)
    small = np.round(small * 2**6) / 2**6  # so that float32 adds 2**16 exactly
    labels = np.zeros(200, dtype=np.int64)
    holder = np.arange(200) % 3
    far = (small + np.float32(2**16)).astype(np.float32)
    near, moved = (
        total([class_sums(x[holder == c], labels[holder == c], 1, 1) for c in range(3)], 1, 2).scatter
        for x in (small, far)
    )
    np.testing.assert_allclose(moved, near, rtol=1e-8)


@pytest.mark.parametrize(("n", "features"), [(20, 40), (90, 6), (500, 30), (5, 1)])
def test_shrinkage_is_scikit_learns(n, features):
    embedding, labels = drawn(n, n, features)
    apart = about_means(embedding, labels)
    expected, _ = sklearn_oas(apart, assume_centered=True)
    covariance = empirical_covariance(apart, assume_centered=True)
    np.testing.assert_allclose(shrink_covariance(covariance, n), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(shrink_covariance(3 * np.eye(features), n), 3 * np.eye(features))


def test_gaussians_of_two_clients_are_those_of_all_pictures():
    embedding, labels = drawn(1)
    half = len(labels) // 2
    parts = [
        received(class_sums(embedding[s], labels[s], CLASSES, 1)) for s in (slice(half), slice(half, None))
    ]
    gaussians = fit_gaussians(total(parts, CLASSES, FEATURES))
    means = [embedding[labels == k].astype(np.float64).mean(axis=0) for k in range(CLASSES)]
    np.testing.assert_allclose(gaussians.means, means, rtol=1e-6)

    covariance, _ = sklearn_oas(about_means(embedding, labels), assume_centered=True)
    white = gaussians.whitening.astype(np.float64)
    assert np.array_equal(white, np.tril(white))
    np.testing.assert_allclose(white.T @ white, np.linalg.inv(covariance), rtol=1e-4, atol=1e-6)
    apart = embedding[:, None].astype(np.float64) - np.array(means)
    expected = np.einsum("nki,ij,nkj->nk", apart, np.linalg.inv(covariance), apart).min(axis=1)
    np.testing.assert_allclose(gaussians.distances(embedding), expected, rtol=1e-3)


def test_more_features_than_pictures_and_features_that_never_move_still_have_a_distance():
    embedding, labels = drawn(4, 12, 40)
    embedding[:, 7] = 1.25
    gaussians = fit_gaussians(class_sums(embedding, labels, CLASSES, 1))
    known = gaussians.distances(embedding)
    moved = embedding.copy()
    moved[:, 7] = 400
    assert np.isfinite(known).all()
    assert (gaussians.distances(moved) > 10 * known).all()


def test_there_are_no_gaussians_of_nothing():
    embedding, labels = drawn(0)
    assert fit_gaussians(class_sums(embedding, labels, CLASSES, min_count=1000)) is None
    assert fit_gaussians(total([], CLASSES, FEATURES)) is None
    same = np.ones_like(embedding)
    assert fit_gaussians(class_sums(same, labels, CLASSES, 1)) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pictures": torch.tensor([3.0, -1.0, 2.0], dtype=torch.float64)}, "north reports .* pictures"),
        ({"pictures": torch.tensor([3.0, 0.5, 2.0], dtype=torch.float64)}, "north reports .* pictures"),
        ({"scatter": -torch.ones(21, dtype=torch.float64)}, "north sent a scatter with -1"),
    ],
)
def test_sums_that_are_none_are_refused_with_the_clients_name(changed, message):
    with pytest.raises(MessageError, match=message):
        received(class_sums(*drawn(0), CLASSES, 1), **changed)


def test_a_scatter_that_is_negative_along_some_direction_is_refused():
    scatter = np.ones((2, 2)) + np.array([[0, 9], [9, 0]])
    broken = ClassSums(np.array([1e6]), np.zeros((1, 2)), scatter)
    with pytest.raises(MessageError, match="some direction"):
        fit_gaussians(broken)


def test_a_left_out_distance_is_that_of_gaussians_without_the_picture():
    """With more features than a class has pictures, those from its own Gaussians are far too small."""
    embedding, labels = drawn(4, n=70, features=40)
    sums = class_sums(embedding, labels, CLASSES, 1)
    gaussians = fit_gaussians(sums)
    assert gaussians is not None
    expected = []
    for picture in range(len(labels)):
        others = np.arange(len(labels)) != picture
        without = fit_gaussians(class_sums(embedding[others], labels[others], CLASSES, 1))
        assert without is not None
        expected.append(without.distances(embedding[picture : picture + 1])[0])
    told = distances_left_out(gaussians, left_out_of(sums), embedding, labels)
    np.testing.assert_allclose(told, expected, rtol=0.03)  # the shrinkage is that of all
    assert np.median(gaussians.distances(embedding) / expected) < 0.7


def test_a_picture_of_a_class_without_a_gaussian_is_left_out_of_nothing():
    embedding, labels = drawn(5)
    sums = class_sums(embedding[labels < 2], labels[labels < 2], CLASSES, 1)
    gaussians = fit_gaussians(sums)
    assert gaussians is not None
    told = distances_left_out(gaussians, left_out_of(sums), embedding, labels)
    of_none = labels == 2
    np.testing.assert_allclose(told[of_none], gaussians.distances(embedding)[of_none], rtol=1e-5)
    assert (told[~of_none] > gaussians.distances(embedding)[~of_none]).all()


@pytest.mark.parametrize("left_out", [np.ones(2), np.array([5.0, 0, 0, 1]), np.ones((2, 2))])
def test_numbers_of_pictures_of_other_gaussians_are_refused(left_out):
    embedding, labels = drawn(5)
    gaussians = fit_gaussians(class_sums(embedding, labels, CLASSES, 1))
    assert gaussians is not None
    with pytest.raises(MessageError, match="Install the same version"):
        distances_left_out(gaussians, left_out, embedding, labels)
