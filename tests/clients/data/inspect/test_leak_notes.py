from clients.data.inspect import leak_notes as module
from clients.data.inspect.leak_notes import leak_notes, told
from clients.data.inspect.near_duplicates import LeakingPairs
from clients.data.prepare import prepare
from clients.data.synthetic.write import write_synthetic
from training.data.settings import DataConfig


def prepared(folder, size):
    write_synthetic(folder, pictures=30, size=64, seed=1)
    config = DataConfig(manifest="manifest.csv", label_map="malignancy", image_size=size)
    return prepare(config, seed=1, folder=folder, cache=folder / "cache")


def test_pairs_across_splits_and_clients_are_told_with_where_they_are():
    splits, clients = told(LeakingPairs(100, 9, {("train", "test"): 3, ("train", "validation"): 2}, 4))
    assert splits.startswith(
        "5 pairs of near-duplicates are in two splits (3 of train and test, 2 of train and"
    )
    assert "dermfed-data link" in splits
    assert clients.startswith("4 pairs of near-duplicates are at two clients")


def test_pairs_within_one_split_leak_nothing():
    assert told(LeakingPairs(100, 9, {}, 0)) == []


def test_what_was_not_sought_is_said(tmp_path, monkeypatch):
    (small,) = leak_notes(prepared(tmp_path / "small", 16))
    assert "fewer than 64 pixels" in small
    data = prepared(tmp_path / "many", 64)
    assert leak_notes(data) == []
    monkeypatch.setattr(module, "MOST", 29)
    (many,) = leak_notes(data)
    assert "not sought among 30 pictures" in many
    monkeypatch.setattr(module, "can_fingerprint", lambda: False)
    (missing,) = leak_notes(data)
    assert "ImageHash" in missing
