import io
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from clients.data.near_duplicates import (
    ALIKE,
    RADIUS,
    SIDE,
    WINDOWS,
    Fingerprints,
    NearDuplicate,
    detail,
    find_near_duplicates,
    fingerprint,
    likeness,
)
from clients.data.synthetic import case_of, draw

SIZE = 128
WHOLE = np.array([[0.0, 1.0, 0.0, 1.0]])


@pytest.fixture(scope="module")
def lesions():
    return [draw(case_of(3, index), SIZE) for index in range(40)]


def saved_anew(
    pixels: NDArray[np.uint8], *, quality: int = 95, scale: float = 1, crop: float = 0, place: float = 0
) -> NDArray[np.uint8]:
    """A copy as a JPEG, decoded to a square again."""
    image = Image.fromarray(pixels)
    side, start = SIZE * (1 - crop), SIZE * crop * place
    image = image.crop(tuple(round(edge) for edge in (start, start, start + side, start + side)))
    image = image.resize((round(image.width * scale), round(image.height * scale)))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def joined(pictures: list[NDArray[np.uint8]]) -> Fingerprints:
    return Fingerprints.joined([fingerprint(pixels) for pixels in pictures])


@pytest.mark.parametrize("quality", [60, 95])
@pytest.mark.parametrize("scale", [0.5, 0.75, 1])
@pytest.mark.parametrize(("crop", "place"), [(0, 0), (0.05, 0), (0.05, 0.4), (0.05, 1)])
def test_a_copy_saved_resized_or_cropped_anew_is_found(lesions, quality, scale, crop, place):
    some = lesions[:8]
    copies = [saved_anew(one, quality=quality, scale=scale, crop=crop, place=place) for one in some]
    found = find_near_duplicates(joined([*some, *copies]))
    assert [(pair.first, pair.second) for pair in found] == [(place, place + 8) for place in range(8)]


def test_different_lesions_are_not_alike(lesions):
    assert find_near_duplicates(joined(lesions)) == []


def naive(prints: Fingerprints, radius: int, alike: float) -> list[tuple[int, int]]:
    """Every pair and every window, one at a time, bits counted in text."""
    found = []
    for one, other in combinations(range(len(prints)), 2):
        best = 0.0
        for mine, theirs in ((one, other), (other, one)):
            differ = [
                sum(
                    bin(int(a) ^ int(b)).count("1")
                    for a, b in zip(prints.hashes[mine, 0], prints.hashes[theirs, window], strict=True)
                )
                for window in range(len(WINDOWS))
            ]
            if min(differ) <= radius:
                left, top, right, bottom = WINDOWS[differ.index(min(differ))]
                part = np.array([[top, bottom - top, left, right - left]])
                (told,) = likeness(prints.copies[mine : mine + 1], prints.copies[theirs : theirs + 1], part)
                best = max(best, told)
        if best >= alike:
            found.append((one, other))
    return found


@pytest.mark.parametrize(("radius", "alike"), [(RADIUS, ALIKE), (90, 0.3), (110, 0.2)])
def test_pairs_are_those_of_a_loop_over_all(lesions, monkeypatch, radius, alike):
    # Blocks so small that there are many of them.
    monkeypatch.setattr("clients.data.near_duplicates._ROWS", 7)
    monkeypatch.setattr("clients.data.near_duplicates._COLUMNS", 50)
    monkeypatch.setattr("clients.data.near_duplicates._PAIRS", 3)
    prints = joined([*lesions[:24], *(saved_anew(one, quality=70, crop=0.05) for one in lesions[:6])])
    found = find_near_duplicates(prints, radius=radius, alike=alike)
    assert [(pair.first, pair.second) for pair in found] == naive(prints, radius, alike)
    assert len(found) >= 6
    assert all(alike <= pair.likeness <= 1 for pair in found)


def test_likeness_is_found_whichever_is_the_crop(lesions):
    crop = saved_anew(lesions[0], crop=0.05, place=0.5)
    there, back = (find_near_duplicates(joined(pair)) for pair in ([lesions[0], crop], [crop, lesions[0]]))
    assert there == [NearDuplicate(0, 1, there[0].likeness)]
    assert there[0].likeness == pytest.approx(back[0].likeness)


def test_empty_pictures_are_not_alike():
    """Their hashes are the same, and they show nothing."""
    empty = np.zeros((SIZE, SIZE, 3), dtype=np.uint8)
    prints = joined([empty, empty, np.full_like(empty, 200)])
    assert (prints.hashes[0] == prints.hashes[1]).all()
    assert find_near_duplicates(prints) == []
    assert find_near_duplicates(Fingerprints.joined([])) == []


def test_the_rounding_of_two_sheets_of_one_colour_is_no_likeness():
    sheets = [np.full((SIZE, SIZE, 3), grey, dtype=np.uint8) for grey in range(0, 256, 9)]
    prints = joined(sheets)
    assert float(np.abs(detail(prints.copies)).max()) == 0
    assert find_near_duplicates(prints) == []


def test_a_faint_texture_counts_all_the_same():
    faint = np.full((1, SIDE, SIDE), 120, dtype=np.uint8)
    faint[0, 20:24, 30:34] += 1
    assert likeness(faint, faint, WHOLE)[0] == pytest.approx(1, abs=1e-4)


def disc(grey: int, radius: float) -> NDArray[np.uint8]:
    """What a dermatoscope shows of skin, `(1, SIDE, SIDE)`: bright in a disc, black around."""
    down, right = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    return np.where(np.hypot(down, right) < radius, grey, 0).astype(np.uint8)[np.newaxis]


def test_the_dark_rim_of_a_dermatoscope_makes_no_likeness(monkeypatch):
    one, other = disc(150, 22), disc(190, 22)
    spot, elsewhere = np.s_[:, 20:26, 14:20], np.s_[:, 28:34, 28:34]
    one[spot], other[elsewhere] = 90, 90
    assert likeness(one, other, WHOLE)[0] < ALIKE
    assert likeness(one, one, WHOLE)[0] == pytest.approx(1, abs=1e-4)
    assert np.ptp(detail(one)[:, :3]) < 1e-6
    monkeypatch.setattr("clients.data.near_duplicates._DARK", 0)
    assert likeness(one, other, WHOLE)[0] > ALIKE


def test_what_saving_adds_to_blank_skin_hardly_counts():
    noise = np.random.default_rng(0)
    down, right = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    spot = np.where(np.hypot(down, right) < 9, 90.0, 170.0)
    one, other = (
        (spot + noise.normal(0, 0.8, spot.shape)).round().astype(np.uint8)[np.newaxis] for _ in range(2)
    )
    assert likeness(one, other, WHOLE)[0] > 0.7
