import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clients.data.synthetic import case_of, draw

CASES = [case_of(5, index) for index in range(900)]


@pytest.fixture(scope="module")
def pictures():
    return np.stack([draw(case, 32) for case in CASES])


def test_a_picture_depends_on_its_case_and_size_alone():
    first = draw(case_of(3, 17), 48)
    assert first.shape == (48, 48, 3)
    assert first.dtype == np.uint8
    assert (first == draw(case_of(3, 17), 48)).all()
    assert (first != draw(case_of(4, 17), 48)).any()
    assert (first != draw(case_of(3, 18), 48)).any()


def test_two_views_of_a_lesion_differ(pictures):
    assert CASES[4].lesion == CASES[5].lesion
    assert np.abs(pictures[4].astype(int) - pictures[5]).mean() > 5


def test_darker_skin_is_darker_and_shows_pigment_less(pictures):
    tones = np.array([case.tone for case in CASES])
    brightness = [pictures[tones == tone].mean() for tone in range(1, 7)]
    assert brightness == sorted(brightness, reverse=True)
    contrast = [pictures[tones == tone].std(axis=(1, 2)).mean() for tone in (1, 6)]
    assert contrast[1] < 0.5 * contrast[0]


@pytest.mark.parametrize("folded", [True, False], ids=["malignancy", "four classes"])
def test_colours_alone_do_not_tell_the_class(pictures, folded):
    """A linear model on colour histograms must stay near chance, or the pictures would teach colour alone."""
    channels = [
        [np.histogram(one[..., channel], 16, (0, 256))[0] for channel in range(3)] for one in pictures
    ]
    joint = [np.bincount((one // 64).reshape(-1, 3) @ [16, 4, 1], minlength=64) for one in pictures]
    features = np.hstack([np.array(channels).reshape(len(pictures), -1), np.array(joint)])
    labels = np.array([case.label in ("MEL", "BCC") if folded else case.label for case in CASES])
    lesions = np.array([case.lesion for case in CASES])
    train = lesions % 3 > 0
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=0.03, max_iter=2000, class_weight="balanced")
    ).fit(features[train], labels[train])
    score = balanced_accuracy_score(labels[~train], model.predict(features[~train]))
    assert score < (0.5 if folded else 0.25) + 0.12
