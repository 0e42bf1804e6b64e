from clients.data import near_duplicate_links as module
from clients.data.near_duplicate_links import leak_notes, shared_owners
from clients.data.prepare import prepare
from clients.data.synthetic import write_synthetic
from training.data.settings import DataConfig


def prepared(folder, size):
    write_synthetic(folder, pictures=30, size=64, seed=1)
    config = DataConfig(manifest="manifest.csv", label_map="malignancy", image_size=size)
    return prepare(config, seed=1, folder=folder, cache=folder / "cache")


def test_patients_at_two_clients_are_counted(tmp_path):
    write_synthetic(tmp_path, pictures=30, size=32, seed=1)
    lines = (tmp_path / "manifest.csv").read_text().splitlines()
    place = lines[0].split(",").index("patient_id")
    patients = [line.split(",")[place] for line in lines[1:]]
    rows = [f"{line},{'north' if number % 2 else 'south'}" for number, line in enumerate(lines[1:])]
    (tmp_path / "manifest.csv").write_text("\n".join([f"{lines[0]},clinic", *rows]))
    shared = {
        patient
        for patient in patients
        if len({n % 2 for n, other in enumerate(patients) if other == patient}) > 1
    }
    clients = {"by": "column", "column": "clinic"}
    config = DataConfig(manifest="manifest.csv", label_map="malignancy", image_size=32, clients=clients)
    data = prepare(config, seed=1, folder=tmp_path, cache=tmp_path / "cache")
    assert shared
    assert shared_owners(data)[0].startswith(f"{len(shared)} patients are at two clients or more")


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
