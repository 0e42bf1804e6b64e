import numpy as np

from clients.data.synthetic.noise import _splines, plane, smooth


def test_splines_are_a_partition_of_unity_and_exact_at_the_knots() -> None:
    splines = _splines(64, 5)
    assert splines.shape == (64, 8)
    assert np.allclose(splines.sum(axis=1), 1, atol=1e-6)
    assert np.allclose(_splines(3, 3)[1], [0, 1 / 48, 23 / 48, 23 / 48, 1 / 48, 0], atol=1e-6)


def test_fields_have_mean_zero_and_deviation_about_one() -> None:
    fields = np.stack([smooth(np.random.default_rng(seed), 32, 6) for seed in range(300)])
    assert abs(fields.mean()) < 0.05
    assert 0.8 < fields.std() < 1.2


def test_more_knots_are_rougher() -> None:
    def roughness(knots: int) -> float:
        field = smooth(np.random.default_rng(0), 64, knots)
        return float(np.abs(np.diff(field, axis=0)).mean() / field.std())

    assert roughness(3) < roughness(8) < roughness(20)


def test_the_plane_runs_right_and_down() -> None:
    x, y = plane(4)
    assert np.allclose(x[0], [-0.75, -0.25, 0.25, 0.75])
    assert np.allclose(y[:, 0], [-0.75, -0.25, 0.25, 0.75])
