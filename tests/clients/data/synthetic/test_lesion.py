import numpy as np
import pytest

from clients.data.synthetic.cases import LABEL_SHARES
from clients.data.synthetic.lesion import KINDS, grow


def lesions(label: str, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    grown = [grow(label, np.random.default_rng(seed), 48) for seed in range(count)]
    return np.stack([lesion.cover for lesion in grown]), np.stack([lesion.pigment for lesion in grown])


def test_every_label_has_a_kind() -> None:
    assert set(KINDS) == set(LABEL_SHARES)


@pytest.mark.parametrize("label", KINDS)
def test_area_and_amount_of_pigment_do_not_depend_on_the_class(label: str) -> None:
    cover, pigment = lesions(label)
    assert 0 <= cover.min() <= cover.max() <= 1
    inside = cover > 0.5
    assert ((inside.mean(axis=(1, 2)) > 0.15) & (inside.mean(axis=(1, 2)) < 0.35)).all()
    # Ranks are uniform inside, whatever the layout: mean 1/2 and standard deviation 1/sqrt(12).
    for one, within in zip(pigment, inside, strict=True):
        assert abs(one[within].mean() - 0.5) < 0.02
        assert abs(one[within].std() - 12**-0.5) < 0.02


def test_melanomas_are_more_lopsided_than_nevi() -> None:
    def asymmetry(label: str) -> float:
        """Share of the lesion that does not meet itself, turned by half a turn about its centre of mass."""
        cover, _ = lesions(label)
        shares = []
        for one in cover > 0.5:
            y, x = np.nonzero(one)
            turned_y = np.round(2 * y.mean() - y).astype(int)
            turned_x = np.round(2 * x.mean() - x).astype(int)
            within = (turned_y >= 0) & (turned_y < 48) & (turned_x >= 0) & (turned_x < 48)
            met = np.zeros(len(y), dtype=bool)
            met[within] = one[turned_y[within], turned_x[within]]
            shares.append(1 - met.mean())
        return float(np.mean(shares))

    assert asymmetry("MEL") > 1.5 * asymmetry("NV")
