import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, spearmanr
from sklearn.metrics import cohen_kappa_score

from personalization.calibration.tone_ranges import agreement, count_angles, learn_ranges
from registry.bundle.skin_tone import ToneRange, contradicted_by, from_dark

TONES = ("0", "1", "2", "3", "4", "5")


def made_up(seed: int = 0, n: int = 400, noise: float = 12.0) -> tuple[list[float], list[str]]:
    """Angles that rise with the tone; few pictures are dark."""
    random = np.random.default_rng(seed)
    tones = random.choice(6, n, p=[0.02, 0.05, 0.13, 0.5, 0.2, 0.1])
    angles = np.clip(-40 + 18 * tones + random.normal(0, noise, n), -89, 89)
    return angles.tolist(), [str(tone) for tone in tones]


def binned(angles: list[float]) -> np.ndarray:
    return np.floor(np.array(angles)) + 0.5


def test_counts_by_hand():
    counts = count_angles([0.5, None, -90, 90, 0.1], ["0", "0", "3", "5", "0"], "milk10k")
    assert counts.angles.shape == (6, 180)
    assert counts.silent.tolist() == [1, 0, 0, 0, 0, 0]
    assert {(t, b): int(counts.angles[t, b]) for t, b in np.argwhere(counts.angles).tolist()} == {
        (0, 90): 2,
        (3, 0): 1,
        (5, 179): 1,
    }
    darkest_first = count_angles([-50.0, 60.0], ["6", "1"], "fitzpatrick").angles
    assert np.argwhere(darkest_first).tolist() == [[0, 40], [5, 150]]


def test_replicates_respect_lesions():
    lesions = np.array([7, 7, 7, 9])
    drawn = count_angles([10.0, 20.0, None, 50.0], ["3", "3", "3", "4"], "milk10k", lesions=lesions,
                         replicates=300, seed=1)  # fmt: skip
    first, second, mute = drawn.angles[:, 3, 100], drawn.angles[:, 3, 110], drawn.silent[:, 3]
    assert (first == second).all()
    assert (first == mute).all()
    assert first.mean() == pytest.approx(1, abs=0.2)
    assert first.var() == pytest.approx(1, abs=0.3)
    assert (first != drawn.angles[:, 4, 140]).any()


@given(st.integers(0, 10_000), st.floats(1, 80))
def test_spearman_is_scipys(seed, noise):
    angles, tones = made_up(seed, 120, noise)
    expected = spearmanr([int(tone) for tone in tones], binned(angles)).statistic
    assert agreement(count_angles(angles, tones, "milk10k")).spearman.value == pytest.approx(expected)
    exact = spearmanr([int(tone) for tone in tones], angles).statistic
    assert expected == pytest.approx(exact, abs=0.02)  # what the bins cost


def test_lighter_is_up_on_every_scale():
    angles = [-40.0, -10.0, 20.0, 50.0]
    assert agreement(count_angles(angles, ["0", "2", "3", "5"], "milk10k")).spearman.value == 1
    assert agreement(count_angles(angles, ["6", "4", "3", "1"], "fitzpatrick")).spearman.value == 1
    assert agreement(count_angles(angles, ["1", "3", "4", "6"], "fitzpatrick")).spearman.value == -1


def test_kappa_and_thirds_are_those_of_angles_cut_in_the_declared_shares():
    random = np.random.default_rng(3)
    tones = np.sort(random.choice(6, 150, p=[0.1, 0.1, 0.2, 0.3, 0.2, 0.1]))
    places = random.permutation(180)[:150]  # no two pictures share a bin
    angles = places - 89.5
    angles = np.where(random.random(150) < 0.6, np.sort(angles), angles)
    _, first = np.unique(angles, return_index=True)
    angles, tones = angles[first], tones[first]
    tones = tones[np.argsort(np.argsort(tones + random.normal(0, 1, len(tones))))]
    cut = np.sort(tones)  # angles are in order: the n darkest get the darkest tone, and so on
    told = agreement(count_angles(angles.tolist(), [str(tone) for tone in tones], "milk10k"))
    assert told.kappa.value == pytest.approx(cohen_kappa_score(tones, cut, weights="quadratic"))
    third = tones // 2
    assert told.right.value == pytest.approx((third == cut // 2).mean())
    recalls = [(cut[third == group] // 2 == group).mean() for group in range(3)]
    assert told.balanced.value == pytest.approx(np.mean(recalls))
    assert told.by_chance == pytest.approx(sum((third == group).mean() ** 2 for group in range(3)))


def test_quartiles_and_overlap_of_neighbours():
    angles, tones = made_up(1)
    told = agreement(count_angles(angles, tones, "milk10k"))
    by_tone = {tone: binned([a for a, t in zip(angles, tones, strict=True) if t == tone]) for tone in TONES}
    for darker, line in zip((None, *TONES), told.tones, strict=False):
        mine = by_tone[line.tone]
        assert line.pictures == len(mine)
        assert line.quartiles == tuple(np.quantile(mine, [0.25, 0.5, 0.75], method="inverted_cdf"))
        if darker is None:
            assert line.above_darker.value is None
        else:
            expected = mannwhitneyu(mine, by_tone[darker]).statistic / len(mine) / len(by_tone[darker])
            assert line.above_darker.value == pytest.approx(expected)


def test_intervals_hold_the_figure_and_narrow_with_more_pictures():
    widths = []
    for n in (100, 1600):
        angles, tones = made_up(2, n, 40.0)
        told = agreement(
            count_angles(angles, tones, "milk10k"), count_angles(angles, tones, "milk10k", replicates=200)
        )
        for estimate in (told.spearman, told.kappa, told.right, told.balanced):
            low, high = estimate.interval
            assert low < estimate.value < high
        widths.append(told.spearman.interval[1] - told.spearman.interval[0])
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.4)


def test_an_interval_by_lesion_is_wider_when_pictures_are_copies():
    angles, tones = made_up(4, 150, 40.0)
    lesions = np.arange(150)
    copied = angles * 4, tones * 4, "milk10k"
    by_lesion, by_picture = (
        agreement(count_angles(*copied), count_angles(*copied, lesions=owners, replicates=300)).spearman
        for owners in (np.tile(lesions, 4), np.arange(600))
    )
    width = np.diff(by_lesion.interval)[0] / np.diff(by_picture.interval)[0]
    assert width == pytest.approx(2, rel=0.25)  # √4


def test_what_is_undefined_is_absent():
    nothing = agreement(count_angles([], [], "milk10k"), count_angles([], [], "milk10k", replicates=3))
    assert (nothing.pictures, nothing.silent, nothing.by_chance) == (0, None, None)
    assert nothing.spearman.value is None
    assert nothing.spearman.interval is None
    one_tone = agreement(count_angles([1.0, 5.0, None], ["3"] * 3, "milk10k"))
    assert one_tone.silent == pytest.approx(1 / 3)
    assert one_tone.spearman.value is None
    assert one_tone.kappa.value is None
    assert one_tone.tones[3].quartiles == (1.5, 1.5, 5.5)
    assert one_tone.tones[2].quartiles is None


def test_ranges_by_hand():
    angles = [place - 20.5 for place in range(50)] * 2
    ranges = learn_ranges(count_angles([*angles, 3.0], ["2"] * 100 + ["4"], "milk10k"), min_count=10)
    # Of 100, two a bin, the 1st is in bin 1, the 25th in bin 13, the 75th in bin 38 and the 99th in bin 50.
    assert ranges == {"2": ToneRange(n=100, low=-21, lower_quartile=-9, upper_quartile=17, high=29)}


def test_a_tone_of_few_angles_has_no_range_and_ties_have_one():
    counts = count_angles([1.0] * 9 + [None] * 5, ["3"] * 14, "milk10k")
    assert learn_ranges(counts) == {}
    assert learn_ranges(counts, min_count=9)["3"].n == 9
    tied = learn_ranges(count_angles([30.5] * 15 + [60.5] * 5, ["2"] * 20, "milk10k"))
    assert tied == {"2": ToneRange(n=20, low=30, lower_quartile=30, upper_quartile=31, high=61)}


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(100, 300))
def test_at_most_two_in_a_hundred_of_those_learned_from_are_warned_of(seed, n):
    angles, tones = made_up(seed, n, 30.0)
    counts = count_angles(angles, tones, "milk10k")
    ranges = learn_ranges(counts)
    for tone, histogram in zip(from_dark("milk10k"), counts.angles, strict=True):
        if tone in ranges:
            warned = [
                bool(contradicted_by(at - 89.5, tone, "milk10k", ranges)) for at in range(len(histogram))
            ]
            assert histogram[warned].sum() <= 0.02 * histogram.sum()


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="angles are from"):
        count_angles([120.0], ["5"], "milk10k")
    with pytest.raises(ValueError, match="did you mean `monk`"):
        count_angles([1.0], ["5"], "mnok")
