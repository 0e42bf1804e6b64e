from collections import Counter

import numpy as np
import pytest

from clients.data.adapters.table import make_adapter
from clients.data.errors import AdapterError
from clients.data.prepare import prepare
from training.data.settings import DataConfig


def arrays(channels: int = 0) -> dict[str, np.ndarray]:
    """Three pictures to train on, one to validate and two to test, as MedMNIST lays them out."""
    draw = np.random.default_rng(0)
    made = {}
    for part, count in (("train", 3), ("val", 1), ("test", 2)):
        shape = (count, 8, 8, channels) if channels else (count, 8, 8)
        made[f"{part}_images"] = draw.integers(0, 256, shape, dtype=np.uint8)
        made[f"{part}_labels"] = np.arange(count, dtype=np.uint8)[:, None] % 2
    return made


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "npz").mkdir()
    np.savez(tmp_path / "npz" / "some.npz", **arrays())
    return tmp_path / "npz"


def test_the_command_imports_pictures_splits_and_codes(folder, import_command):
    manifest = import_command("medmnist", folder, codes={"0": "normal", "1": "pneumonia"})
    assert [row.image for row in manifest.rows[2:5]] == [
        "npz/some.npz::train_images/2",
        "npz/some.npz::val_images/0",
        "npz/some.npz::test_images/0",
    ]
    assert manifest.values("label") == ["normal", "pneumonia", "normal", "normal", "normal", "pneumonia"]
    assert manifest.values("split") == ["train"] * 3 + ["validation"] + ["test"] * 2


def test_a_picture_in_two_splits_is_held_out(tmp_path, imported):
    made = arrays()
    made["val_images"][0] = made["train_images"][1]
    made["train_images"][2] = made["train_images"][0]
    np.savez(tmp_path / "some.npz", **made)
    manifest = imported("medmnist", tmp_path)
    assert manifest.values("split") == ["train", "", "train", "validation", "test", "test"]
    assert manifest.values("duplicate_group") == [
        "train_images/0", "train_images/1", "train_images/0", "train_images/1", "", "",
    ]  # fmt: skip
    config = DataConfig(adapter="medmnist", folder=".", image_size=8, clients={"by": "iid", "count": 1})
    prepared = prepare(config, seed=0, folder=tmp_path, cache=tmp_path / "cache")
    assert [len(prepared.examples("client-0", split)) for split in ("train", "validation", "test")] == [
        2,
        2,
        2,
    ]


@pytest.mark.parametrize("channels", [0, 3])
def test_a_job_trains_on_the_pixels_of_the_file(tmp_path, channels):
    made = arrays(channels)
    np.savez_compressed(tmp_path / "some.npz", **made)
    config = DataConfig(adapter="medmnist", folder=".", image_size=8, clients={"by": "iid", "count": 1})
    prepared = prepare(config, seed=0, folder=tmp_path, cache=tmp_path / "cache")
    train = prepared.examples("client-0", "train")
    grey = made["train_images"] if channels else np.repeat(made["train_images"][..., None], 3, axis=3)
    assert (train.batch(np.arange(3)) == grey).all()
    assert train.labels.tolist() == [0, 1, 0]
    assert [len(prepared.examples("client-0", split)) for split in ("validation", "test")] == [1, 2]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"val_images": None}, "not laid out like MedMNIST.*val_images"),
        ({"test_labels": np.zeros((2, 14), dtype=np.uint8)}, r"test_labels has the shape \(2, 14\)"),
        ({"test_labels": np.zeros((3, 1), dtype=np.uint8)}, r"test_labels has the shape \(3, 1\)"),
        ({"test_labels": np.zeros((2, 1))}, "of float64; needed is one whole number for each of 2"),
        ({"train_images": np.zeros((3, 8, 8, 8), dtype=np.uint8)}, "cannot be read: train_images has"),
        ({"val_labels": np.array([{}], dtype=object)}, "cannot be read: Object arrays"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, imported, changed, match):
    kept = {name: array for name, array in (arrays() | changed).items() if array is not None}
    np.savez(tmp_path / "some.npz", **kept)
    with pytest.raises(AdapterError, match=match):
        imported("medmnist", tmp_path)


def test_which_file_and_which_codes_are_asked_for(folder, imported):
    with pytest.raises(AdapterError, match="train_images/1 has the diagnosis '1'; valid: 0"):
        imported("medmnist", folder, codes={"0": "normal"})
    np.savez(folder / "other.npz", **arrays())
    with pytest.raises(AdapterError, match=r"2 .npz files \(other.npz, some.npz\); name one as `file`"):
        imported("medmnist", folder)
    assert len(imported("medmnist", folder, file="some.npz").rows) == 6
    (folder / "text.npz").write_text("no arrays")
    for file in ("text.npz", "missing.npz"):
        with pytest.raises(AdapterError, match=f"{file} cannot be read"):
            imported("medmnist", folder, file=file)


@pytest.mark.real
def test_pneumonia_as_given(real_data):
    folder = real_data / "pneumonia"
    if not folder.is_dir():
        pytest.skip(f"{real_data} has no pneumonia")
    manifest = make_adapter("medmnist", {"codes": {"0": "normal", "1": "pneumonia"}}).manifest(folder)
    assert Counter(manifest.values("published_split")) == {"train": 2428, "validation": 270, "test": 468}
    assert Counter(manifest.values("split")) == {"train": 2424, "": 4, "validation": 270, "test": 468}
    assert Counter(manifest.values("label")) == {"normal": 1583, "pneumonia": 1583}
    assert Counter(Counter(filter(None, manifest.values("duplicate_group"))).values()) == {2: 6, 3: 1}
