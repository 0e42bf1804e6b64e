"""Lloyd's steps and seeds against naive loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.objectives.tokenizers.kmeans import Cells, cells, draw_seeds, moments, nearest


def bytes_like(shape, seed):
    """Whole numbers from 0 to 255, clumped about a few colours."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 256, (4, shape[1]))
    noisy = centres[rng.integers(0, 4, shape[0])] + rng.normal(0, 20, shape)
    return noisy.round().clip(0, 255)


def naive_lloyd(points, centroids, steps, fewest=1):
    """k-means point by point; cells of fewer than `fewest` points do not count."""
    centroids = [row.copy() for row in centroids]
    for _ in range(steps):
        members = [[] for _ in centroids]
        for point in points:
            members[int(np.argmin([((point - c) ** 2).sum() for c in centroids]))].append(point)
        centroids = [
            np.mean(own, axis=0) if len(own) >= fewest else centroid
            for own, centroid in zip(members, centroids, strict=True)
        ]
    return np.array(centroids)


def test_steps_are_naive_lloyd_whoever_holds_the_points():
    points = bytes_like((120, 6), 0)
    seeds = draw_seeds(moments(torch.from_numpy(points)), 9, np.random.default_rng(1))
    parts = [torch.from_numpy(part) for part in np.split(points, [11, 70])]
    centroids = seeds
    for _ in range(5):
        first, *others = [cells(part, nearest(part, centroids), 9) for part in parts]
        centroids = sum(others, first).move(centroids)
    np.testing.assert_allclose(centroids, naive_lloyd(points, seeds.numpy(), 5), rtol=1e-12)


@given(seed=st.integers(0, 2**20), order=st.permutations(range(4)))
def test_sums_do_not_depend_on_the_order_of_clients_to_the_last_bit(seed, order):
    parts = [torch.from_numpy(bytes_like((n, 3), seed + n)) for n in (1, 7, 20, 33)]
    centroids = torch.from_numpy(np.random.default_rng(seed).uniform(0, 255, (5, 3)))

    def add(found):
        first, *others = found
        return sum(others, first)

    told = [cells(part, nearest(part, centroids), 5) for part in parts]
    straight, turned = add(told), add([told[i] for i in order])
    assert torch.equal(straight.totals, turned.totals)
    assert torch.equal(straight.counts, turned.counts)
    known = [moments(part) for part in parts]
    straight, turned = add(known), add([known[i] for i in order])
    assert torch.equal(straight.products, turned.products)
    whole = moments(torch.cat(parts))
    assert torch.equal(whole.products, straight.products)
    assert torch.equal(whole.total, straight.total)
    assert whole.n == straight.n == 61


def test_seeds_have_the_mean_and_the_covariance_of_the_points_and_are_none_of_them():
    points = bytes_like((500, 4), 3)
    seeds = draw_seeds(moments(torch.from_numpy(points)), 20000, np.random.default_rng(0)).numpy()
    np.testing.assert_allclose(seeds.mean(axis=0), points.mean(axis=0), atol=2)
    expected = np.cov(points.T, bias=True)
    np.testing.assert_allclose(np.cov(seeds.T), expected, atol=0.05 * expected.max())
    assert not {tuple(row) for row in seeds} & {tuple(row) for row in points}


def test_small_cells_are_withheld_whole_and_an_empty_cell_keeps_its_centroid():
    found = Cells(torch.tensor([[9.0, 3.0], [8.0, 8.0], [0.0, 0.0]]), torch.tensor([3.0, 2.0, 0.0]))
    told = found.only(found.counts >= 3)
    assert told.totals.tolist() == [[9, 3], [0, 0], [0, 0]]
    assert told.counts.tolist() == [3, 0, 0]
    moved = told.move(torch.tensor([[1.0, 1.0], [4.0, 5.0], [6.0, 7.0]]))
    assert moved.tolist() == [[3, 1], [4, 5], [6, 7]]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_nearest_is_at_the_smallest_distance(kind):
    rng = np.random.default_rng(0)
    points, centroids = rng.uniform(0, 1, (50, 12)), rng.uniform(0, 1, (7, 12))
    expected = [int(np.argmin([((p - c) ** 2).sum() for c in centroids])) for p in points]
    found = nearest(torch.from_numpy(points).to(kind), torch.from_numpy(centroids).to(kind))
    assert found.tolist() == expected
    assert len(set(expected)) > 3
