"""Releases without a registry, and what is counted of them."""

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.evaluation import ReferenceHistograms, SubgroupHistograms
from registry.bundle.folder import Bundle
from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import DISTANCE_BINS, Gaussians
from registry.records import Release, Version
from serving.inference.predictor import LoadedVersion
from serving.releases.loading import LoadedRelease

MALIGNANT = np.array([True, False, False])


@pytest.fixture(scope="session")
def load() -> Callable[..., LoadedRelease]:
    """A release of bundles, loaded; versions are numbered from `first` on."""

    def make(*bundles: Bundle, first: int = 1) -> LoadedRelease:
        versions = [
            Version(one.manifest.model, number, one.digest, one.manifest.subgroup, datetime.now(UTC))
            for number, one in enumerate(bundles, start=first)
        ]
        loaded = [LoadedVersion.of(*pair) for pair in zip(versions, bundles, strict=True)]
        return LoadedRelease(
            Release(1, versions[0].model, tuple(versions)),
            {one.version.subgroup.name: one for one in loaded},
        )

    return make


@pytest.fixture(scope="session")
def shares() -> Callable[..., np.ndarray]:
    """Probabilities of three classes for so many pictures; `lean` says towards which."""

    def draw(seed: int, n: int, lean: tuple[float, ...] = (2, 3, 1)) -> np.ndarray:
        return np.random.default_rng(seed).dirichlet(lean, n)

    return draw


@pytest.fixture(scope="session")
def reference() -> Callable[..., ReferenceHistograms]:
    """What test pictures with these probabilities leave in a bundle; keywords name subgroups with theirs."""

    def make(probabilities, *, subgroups=(), distances=None) -> ReferenceHistograms:
        def counts(rows):
            return count(rows, np.zeros(len(rows), dtype=int), malignant=MALIGNANT).point

        return ReferenceHistograms.from_counts(
            counts(probabilities),
            distances=distances,
            by_subgroup=tuple(
                SubgroupHistograms.from_counts(counts(rows), subgroup=subgroup)
                for subgroup, rows in subgroups
            ),
        )

    return make


@pytest.fixture(scope="session")
def familiar() -> OutOfDistribution:
    """One Gaussian at the origin, of three features that do not lean on each other; unfamiliar from 10 on."""
    gaussians = Gaussians(np.zeros((1, 3), np.float32), np.eye(3, dtype=np.float32))
    place = DISTANCE_BINS // 12 * 4 - 1  # the bin that ends at 10 to the power of 1
    return OutOfDistribution.of(gaussians, ["MEL"], trained_on=500, rate=0.05, n=400, threshold_bin=place)
