"""Seeded and blind linking: what bins a picture is in, out of columns of bootstrap replicates.

Against what the control sends, both read every picture's record. Against today's answers, from the client in
process and from the bytes of the network engine, the attacks are others, for there are no columns: what all
predictions obey links the histograms of many classes, and the order of scores those of several releases.
"""

import numpy as np
import pytest

from registry.bundle.score_bins import SCORE_BINS
from tests.attacks.guessing import guesses, holds
from tests.attacks.hospitals import Model, arrays_of, as_before, ask, draw
from tests.attacks.records import Records, recovered
from tests.attacks.replicates import read_records, same_pictures, single_weights
from tests.attacks.trials import MANY, WAYS, added, seeded, try_now

SIZES = [(60, 11), (60, 2), (99, 11), (99, 2)]
DRAWS = {11: 4, 2: 16}  # of hospitals; pictures of two classes are often guessed, so that it takes more


def hospitals(seed, classes):
    rng = np.random.default_rng(seed)
    return [draw(rng, 60, classes, name) for name in ("north", "south", "west")]


@pytest.mark.parametrize(("pictures", "classes"), SIZES)
def test_before_who_knew_the_seed_read_every_picture(pictures, classes):
    hospital = draw(np.random.default_rng(pictures), pictures, classes)
    read = read_records(as_before(hospital), seeded(hospital))
    assert recovered(read, Records.of(hospital)) == pictures


@pytest.mark.parametrize("classes", [11, 2])
def test_before_who_knew_the_seed_read_every_picture_out_of_a_sum_of_hospitals(classes):
    three = hospitals(3, classes)
    read = read_records(added(as_before(each) for each in three), seeded(*three))
    assert recovered(read, Records.of(*three)) == 180


@pytest.mark.parametrize("classes", [11, 2])
def test_before_pictures_were_read_without_the_seed(classes):
    rng = np.random.default_rng(4)
    own = draw(rng, 5000, classes)
    read, guessed = [], {}
    for secret in range(5):
        hospital = draw(rng, 60, classes)
        told, truth = as_before(hospital, secret), Records.of(hospital)
        read.append(recovered(read_records(told, single_weights(told)), truth))
        for name, guess in guesses(arrays_of(ask(hospital)), own, rng).items():
            guessed.setdefault(name, []).append(recovered(guess, truth))
    assert not holds(read, guessed)
    if classes == 11:
        assert read == [60] * 5


def test_before_answers_of_two_models_were_linked_by_their_weights():
    first = draw(np.random.default_rng(5), 60, 11)
    second = first.under(Model(11, weight=np.eye(11) + 0.3 * np.roll(np.eye(11), 1, axis=1)))
    tables = [single_weights(as_before(each)) for each in (first, second)]
    pairs = np.array(same_pictures(tables))
    truth = [Records.of(each).probabilities for each in (first, second)]
    read = [
        read_records(as_before(each), of).probabilities
        for each, of in zip((first, second), tables, strict=True)
    ]
    linked = np.concatenate([of[pairs[:, place]] for place, of in enumerate(read)], axis=1)
    apart = np.abs(linked[:, None] - np.concatenate(truth, axis=1)).max(axis=-1)
    assert (apart.min(axis=0) <= 1 / 500).sum() == 60


@pytest.mark.parametrize("way", WAYS)
def test_no_columns_leave(way):
    arrays = arrays_of(WAYS[way](ask(draw(np.random.default_rng(1), 60, 11))))
    sizes = {name: array.size for name, array in arrays.items()}
    assert sizes == {
        "confusion": 11 * 11,
        "scores": 11 * 2 * SCORE_BINS,
        "malignancy": 2 * SCORE_BINS,
        "confidence": 2 * SCORE_BINS,
        "lesions": 78,
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("pictures", "classes"), SIZES)
def test_of_what_leaves_now_no_more_pictures_are_read_than_guessed(pictures, classes, way):
    attacked, guessed = try_now(DRAWS[classes], pictures, classes, way)
    assert holds(attacked, guessed)
    if classes == 11:
        assert not any(attacked)


@pytest.mark.parametrize("classes", [11, 2])
def test_of_a_sum_of_three_hospitals_no_more_pictures_are_read_than_guessed(classes):
    assert holds(*try_now(DRAWS[classes] // 2, 60, classes, together=3))


def test_many_releases_of_one_order_tell_no_more_pictures_than_guessing():
    """Temperatures keep the order: runs that ended by bin would end at other ranks in each release."""
    assert holds(*try_now(12, 99, 2, temperatures=MANY))


@pytest.mark.parametrize("classes", [3, 2])
def test_where_single_pictures_have_bins_of_their_own_the_same_attack_reads_more_than_guessing(classes):
    """With `min_count: 1` nothing is merged: the attack can succeed, and merging is what keeps it from it."""
    assert not holds(*try_now(6, 60, classes, min_count=1, roughly=True))
    assert holds(*try_now(6, 60, classes, roughly=True))
