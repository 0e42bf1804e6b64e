"""What rows say in the columns whose intersections with subgroups are judged."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clients.data.errors import ClientDataError
from clients.data.manifest import Row
from clients.data.prepare import prepare
from clients.data.subgroups import MOST_VALUES, read_traits
from training.data.dataset import SPLITS, HasTraits, traits_of
from training.data.settings import DataConfig
from training.data.subgroups import IntersectionConfig

WritePictures = Callable[[list[Row]], Path]
SEX, AGE, SITE = (
    IntersectionConfig(column="sex"),
    IntersectionConfig(column="age", bands=(40, 60)),
    IntersectionConfig(column="site"),
)


def rows(count: int = 24) -> list[Row]:
    return [
        Row(
            f"images/{number:03d}.png",
            label="MEL" if number % 2 else "NV",
            site=("face", "", "arm")[number % 3],
            extra={"sex": ("m", "f")[number // 2 % 2], "age": ("39", "40", "", "85")[number % 4]},
        )
        for number in range(count)
    ]


def prepared(path: Path, *intersections: IntersectionConfig):
    config = DataConfig(manifest=path.name, image_size=12)
    return prepare(config, seed=0, folder=path.parent, cache=path.parent / "c", intersections=intersections)


def test_values_are_in_order_and_every_row_has_one():
    traits = read_traits(rows(4), [SEX, AGE, SITE])
    assert traits.values == {"sex": ("f", "m"), "age": AGE.values, "site": ("arm", "face", "unknown")}
    assert traits.members.tolist() == [[1, 0, 1], [1, 1, 2], [0, 3, 0], [0, 2, 1]]


def test_examples_carry_what_their_rows_say(write_pictures):
    path = write_pictures(rows())
    dataset = prepared(path, SEX, AGE, SITE)
    bare = prepared(path)
    assert isinstance(dataset, HasTraits)
    assert traits_of(bare) == {}
    seen = 0
    expected = read_traits(rows(), [SEX, AGE, SITE]).members.tolist()
    for split in SPLITS:
        examples = dataset.examples("manifest", split)
        assert bare.examples("manifest", split).traits is None
        lesions = {int(number) for number in examples.lesions}
        assert examples.traits.shape == (len(examples), 3)
        # Rows without lesion and patient are numbered in their order: a lesion each.
        assert sorted(examples.traits.tolist()) == sorted(expected[number] for number in lesions)
        odd = np.arange(len(examples)) % 2 == 1
        np.testing.assert_array_equal(examples.where(odd).traits, examples.traits[odd])
        seen += len(examples)
    assert seen == 24


def test_the_fingerprint_knows_traits_only_where_they_are_asked_for(write_pictures):
    path = write_pictures(rows())
    assert prepared(path).fingerprint == prepared(path).fingerprint != prepared(path, SEX).fingerprint
    assert prepared(path, SEX).fingerprint == prepared(path, SEX).fingerprint
    assert prepared(path, SEX).fingerprint != prepared(path, AGE).fingerprint


def test_a_column_that_names_single_things_is_refused_without_naming_them():
    many = [Row(f"{number}.png", patient_id=f"P{number}") for number in range(MOST_VALUES + 1)]
    with pytest.raises(ClientDataError, match=f"patient_id has {MOST_VALUES + 1} values") as caught:
        read_traits(many, [IntersectionConfig(column="patient_id")])
    assert "P0" not in str(caught.value)
    assert len(read_traits(many[1:], [IntersectionConfig(column="patient_id")]).values["patient_id"]) == 50
