"""What `add` says of folders without a sound bundle: it ends with 2, and with 1 where a rule says no."""

import json
import os

import pytest

pytestmark = pytest.mark.sqlite  # of the folder, which is the same for every database


def no_folder(folder):
    return folder / "nothing"


def a_file(folder):
    return folder / "bundle.json"


def empty(folder):
    for path in folder.iterdir():
        path.unlink()


def no_manifest(folder):
    (folder / "bundle.json").unlink()


def no_model(folder):
    (folder / "model.onnx").unlink()


def model_is_a_folder(folder):
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").mkdir()


def model_is_a_pipe(folder):
    (folder / "model.onnx").unlink()
    os.mkfifo(folder / "model.onnx")


def rewritten(change):
    def damage(folder):
        path = folder / "bundle.json"
        record = json.loads(path.read_bytes())
        change(record)
        path.write_text(json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False))

    damage.__name__ = change.__name__
    return damage


def truncated(folder):
    path = folder / "bundle.json"
    path.write_bytes(path.read_bytes()[:-10])


def no_json(folder):
    (folder / "bundle.json").write_bytes(b"\xff\xfe")


def a_list(folder):
    (folder / "bundle.json").write_text("[]")


def reformatted(folder):
    path = folder / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))


def other_model(folder):
    with (folder / "model.onnx").open("ab") as file:
        file.write(b"x")


def a_file_beside(folder):
    (folder / "weights.bin").touch()


def newer_schema(record):
    record["schema_version"] = 1000


def older_than_any(record):
    record["schema_version"] = 0


def without_labels(record):
    del record["labels"]


def a_figure_beyond_numbers(record):
    record["evaluation"]["all"]["estimates"]["auroc"] = 1e308


def more_right_than_pictures(record):
    record["evaluation"]["all"]["right"] = 51


BAD = [
    (no_folder, 2, "FolderError", "cannot be read"),
    (a_file, 2, "FolderError", "cannot be read"),
    (empty, 2, "FolderError", "model.onnx is not there"),
    (no_manifest, 2, "FolderError", "bundle.json is not there"),
    (no_model, 2, "FolderError", "model.onnx is not there"),
    (model_is_a_folder, 2, "FolderError", "model.onnx is no file"),
    (model_is_a_pipe, 2, "FolderError", "model.onnx is no file"),
    (truncated, 2, "BundleCorrupt", "is not JSON"),
    (no_json, 2, "BundleCorrupt", "is not JSON"),
    (a_list, 2, "ManifestError", "a manifest is an object"),
    (reformatted, 2, "BundleCorrupt", "not in its canonical form"),
    (rewritten(older_than_any), 2, "OtherSchema", "schema_version 0"),
    (rewritten(newer_schema), 2, "OtherSchema", "schema_version 1000"),
    (rewritten(without_labels), 2, "ManifestError", "labels"),
    (other_model, 2, "BundleCorrupt", "The model was altered"),
    (a_file_beside, 1, "BundleRefused", "'weights.bin'"),
    (rewritten(a_figure_beyond_numbers), 2, "ManifestError", "it is from 0 to 1"),
    (rewritten(more_right_than_pictures), 2, "ManifestError", "a part is at most the whole"),
]


@pytest.mark.parametrize(("damage", "code", "error", "said"), BAD, ids=[one[0].__name__ for one in BAD])
def test_a_bad_bundle_is_told_in_a_line_with_the_code_that_is_documented(
    command, places, folders, bundle, damage, code, error, said
):
    sound, folder = folders(bundle(seed=1), bundle())
    folder = damage(folder) or folder
    ended = command("add", sound, folder)
    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
    assert ended.err.startswith(f"{error}: ")
    assert said in ended.err
    assert json.loads(command("list", "--json").out) == []
    assert not places.store.exists() or not list(places.store.rglob("*/*/*"))


def test_a_folder_that_changes_while_it_is_added_is_stored_as_it_was_checked(
    registry, bundle, graph, folders, monkeypatch
):
    """The model is swapped once it was checked, and again nothing but what was checked is a version's."""
    (folder,) = folders(bundle())
    checked = []

    def swap(path, manifest, title):
        checked.append(path.read_bytes())
        (folder / "model.onnx").write_bytes(graph(classes=4))

    monkeypatch.setattr("registry.releases.add.probe_model", swap)
    (version,) = registry.add([folder])
    assert registry.bundle(version).model == checked[0] == bundle().model
    assert registry.verify() == ()
