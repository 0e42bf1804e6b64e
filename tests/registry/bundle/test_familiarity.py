"""Distances against SciPy's Mahalanobis distance and by hand, and their bins against logarithms."""

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.spatial.distance import mahalanobis

from registry.bundle.decision import decide
from registry.bundle.errors import GraphError
from registry.bundle.manifest import OutOfDistribution
from registry.bundle.model import DISTANCE_BINS, Gaussians, distance_bin

# Two features of variance 4 and 0.25; L⁻¹ is diagonal with 1/2 and 2.
BY_HAND = Gaussians(np.array([[0, 0], [10, 1]], np.float32), np.diag([0.5, 2]).astype(np.float32))
CERTAIN = np.array([0.98, 0.01, 0.01])


def entry(gaussians=BY_HAND, classes=("MEL", "NV"), **parts) -> OutOfDistribution:
    given = {"trained_on": 80, "rate": 0.05, "n": 19, "threshold_bin": int(distance_bin(np.array(5.9)))}
    return OutOfDistribution.of(gaussians, classes, **{**given, **parts})


def drawn(seed: int, classes: int, features: int) -> tuple[Gaussians, np.ndarray]:
    """Gaussians with their covariance."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(features, 2 * features))
    covariance = factor @ factor.T / features + 0.1 * np.eye(features)
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    means = 5 + rng.normal(size=(classes, features)) * 3
    return Gaussians(means.astype(np.float32), whitening.astype(np.float32)), covariance


def test_distances_by_hand():
    # To (0, 0): (2/2)² + (2·1)² = 5. To (10, 1): (2/2)² + 0 = 1; the nearest class counts.
    found = BY_HAND.distances(np.array([[2, 1], [0, 0], [8, 1], [12, 1]], np.float32))
    assert found == pytest.approx([5, 0, 1, 1])


@pytest.mark.parametrize(("classes", "features"), [(1, 1), (2, 5), (7, 40)])
def test_distances_are_scipys_to_the_nearest_class(classes, features):
    gaussians, covariance = drawn(classes, classes, features)
    rng = np.random.default_rng(9)
    embedding = rng.normal(5, 4, (20, features)).astype(np.float32)
    precision = np.linalg.inv(covariance)
    expected = [min(mahalanobis(row, mean, precision) ** 2 for mean in gaussians.means) for row in embedding]
    assert gaussians.distances(embedding) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("shape", [(2,), (3, 3), (1, 2, 2)])
def test_an_embedding_of_other_features_is_refused(shape):
    with pytest.raises(GraphError, match="fitted on 2 features"):
        BY_HAND.distances(np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"features": 3}, "do not make"),
        ({"means": "AAAA"}, "do not make"),
        ({"whitening": "%%%%"}, "base64"),
        ({"classes": []}, "classes"),
        ({"n": 18}, "at least 19 are needed"),
        ({"threshold_bin": DISTANCE_BINS - 1}, "threshold_bin"),
        ({"rate": 1.0}, "rate"),
    ],
)
def test_an_entry_that_cannot_decide_is_refused(broken, message):
    record = {**entry().model_dump(), **broken}
    with pytest.raises(ValidationError, match=message):
        OutOfDistribution.model_validate(record)


@pytest.mark.parametrize(("x", "unfamiliar"), [(4.8, False), (5.0, True)])
def test_a_picture_unlike_those_trained_on_is_referred_however_certain(manifest, x, unfamiliar):
    # (4.8/2)² = 5.76 is in an earlier bin than 5.9, (5/2)² = 6.25 in a later one.
    whole = manifest(out_of_distribution=entry())
    decision = decide(CERTAIN, whole, embedding=np.array([-x, 0], np.float32))
    assert decision.unfamiliar is unfamiliar
    assert decision.reported is not unfamiliar
    said = [text for text in decision.warnings if "unlike the pictures the model was trained on" in text]
    assert len(said) == unfamiliar
    assert all("5 % or less of known pictures" in text for text in said)
    assert decision.to_json()["decision"] == ("refer" if unfamiliar else "report")


def test_without_a_threshold_nothing_is_unfamiliar_and_the_answer_says_so(manifest):
    few = manifest(out_of_distribution=entry(n=18, threshold_bin=None))
    decision = decide(CERTAIN, few, embedding=np.array([1e6, 0]))
    assert (decision.reported, decision.unfamiliar) == (True, None)
    assert "Too few pictures to tell what is unlike" in decision.warnings[0]


@pytest.mark.parametrize("embedding", [np.zeros(3), np.zeros((1, 2)), np.array([np.nan, 0])])
def test_an_embedding_that_is_none_is_refused(manifest, embedding):
    with pytest.raises(GraphError, match="one finite number for each of the 2 features"):
        decide(CERTAIN, manifest(out_of_distribution=entry()), embedding=embedding)
