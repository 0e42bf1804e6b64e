import pytest

from registry.bundle.skin_tone import SCALES, read_scale, read_tone


@pytest.mark.parametrize(
    ("value", "tone"),
    [("IV", "4"), ("iv", "4"), ("4", "4"), ("4.0", "4"), (" VI ", "6"), ("I", "1")],
)
def test_fitzpatrick_is_spelt_in_one_way(value: str, tone: str) -> None:
    assert read_tone(value, "fitzpatrick") == tone


@pytest.mark.parametrize("scale", SCALES)
def test_every_value_of_a_scale_is_read_as_itself(scale: str) -> None:
    assert [read_tone(value, scale) for value in SCALES[scale]] == list(SCALES[scale])


@pytest.mark.parametrize(
    ("value", "scale"),
    [("0", "fitzpatrick"), ("7", "fitzpatrick"), ("VII", "fitzpatrick"), ("11", "monk"), ("IV", "monk"),
     ("6", "milk10k"), ("1", "ddi"), ("-1", "fitzpatrick"), ("4.5", "fitzpatrick")],
)  # fmt: skip
def test_values_off_the_scale_are_refused_with_what_is_allowed(value: str, scale: str) -> None:
    with pytest.raises(ValueError, match=f"not on the scale {scale}; allowed: {SCALES[scale][0]}, "):
        read_tone(value, scale)


def test_monk_ten_is_not_cut_to_one() -> None:
    assert read_tone("10.0", "monk") == "10"


def test_unknown_scale_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean `fitzpatrick`"):
        read_scale("fitspatrick")
