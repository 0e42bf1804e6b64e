"""What is refused at the door, each with a made file and a message that says what to do."""

import pickle

import pytest

from registry.errors import BundleRefused
from registry.releases import add
from registry.releases.add import MAX_MANIFEST_BYTES, MAX_MODEL_BYTES, read_folder_manifest

pytestmark = pytest.mark.sqlite  # nothing here depends on the database


def test_a_pickle_is_refused_and_not_unpickled(registry, bundle):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    with pytest.raises(BundleRefused, match=r"it is a pickle, and no ONNX; export the model"):
        registry.add([bundle(graph=pickle.dumps(Trap()))])


@pytest.mark.parametrize("name", ["weights.bin", "model.pkl", "notes.txt", "more/"])
def test_what_lies_beside_the_two_files_is_refused(registry, bundle, folders, name):
    (folder,) = folders(bundle())
    (folder / name).mkdir() if name.endswith("/") else (folder / name).write_bytes(b"1")
    with pytest.raises(
        BundleRefused, match=f"holds '{name.strip('/')}' beside model.onnx and bundle.json"
    ) as caught:
        registry.add([folder])
    assert "move what else there is out of the folder" in str(caught.value)


def test_what_a_desktop_leaves_is_never_read(bundle, folders):
    (folder,) = folders(bundle())
    (folder / ".DS_Store").write_bytes(pickle.dumps(1))
    assert read_folder_manifest(folder)[0] == bundle().manifest


@pytest.mark.parametrize("name", ["model.onnx", "bundle.json"])
def test_a_file_over_its_limit_is_refused_before_it_is_read(bundle, folders, name, monkeypatch):
    limit = {"model.onnx": MAX_MODEL_BYTES, "bundle.json": MAX_MANIFEST_BYTES}[name]
    (folder,) = folders(bundle())
    with (folder / name).open("r+b") as file:
        file.truncate(limit + 1)
    monkeypatch.setattr(add, "read_file", lambda file: pytest.fail("it was read"))
    with pytest.raises(BundleRefused, match=rf"has {limit + 1:,} bytes; allowed are {limit:,}"):
        read_folder_manifest(folder)
