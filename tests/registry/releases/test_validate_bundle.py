"""What is refused at the door, each with a made file and a message that says what to do."""

import pickle

import pytest

from registry.errors import BundleRefused, InvalidName
from registry.releases import validate_bundle
from registry.releases.validate_bundle import MAX_MANIFEST_BYTES, check_bundle, read_folder_manifest

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
        registry.add_folders([folder])
    assert "move what else there is out of the folder" in str(caught.value)


def test_what_a_desktop_leaves_is_never_read(bundle, folders):
    (folder,) = folders(bundle())
    (folder / ".DS_Store").write_bytes(pickle.dumps(1))
    assert read_folder_manifest(folder)[0] == bundle().manifest


def test_a_model_over_the_limit_is_refused_before_it_is_read(bundle, folders, monkeypatch):
    (folder,) = folders(bundle())
    size = len(bundle().model)
    monkeypatch.setenv("DERMFED_MAX_MODEL_BYTES", str(size))
    assert read_folder_manifest(folder)[0] == bundle().manifest
    assert check_bundle(bundle())
    monkeypatch.setenv("DERMFED_MAX_MODEL_BYTES", str(size - 1))
    monkeypatch.setattr(validate_bundle, "read_file", lambda file: pytest.fail("it was read"))
    for refuse in (lambda: read_folder_manifest(folder), lambda: check_bundle(bundle())):
        with pytest.raises(BundleRefused, match=f"has {size:,} bytes; allowed are {size - 1:,}") as caught:
            refuse()
        assert "set DERMFED_MAX_MODEL_BYTES" in str(caught.value)


def test_a_manifest_over_the_limit_is_refused_before_it_is_read(bundle, folders):
    (folder,) = folders(bundle())
    with (folder / "bundle.json").open("r+b") as file:
        file.truncate(MAX_MANIFEST_BYTES + 1)
    with pytest.raises(BundleRefused, match=r"bundle\.json has 67,108,865 bytes; allowed are 67,108,864"):
        read_folder_manifest(folder)


@pytest.mark.parametrize("text", ["0", "-1", "1GB", "", "1.5", str(2**31)])
def test_a_limit_that_is_none_is_refused(bundle, monkeypatch, text):
    monkeypatch.setenv("DERMFED_MAX_MODEL_BYTES", text)
    with pytest.raises(InvalidName, match="DERMFED_MAX_MODEL_BYTES is ") as caught:
        check_bundle(bundle())
    assert "from 1 to 2,147,483,647" in str(caught.value)
