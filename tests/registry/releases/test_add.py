"""Adding bundles: what becomes a version, and what is refused, each with a made file."""

import dataclasses
import json
import logging
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from registry.bundle.labels import Subgroup
from registry.errors import BundleRefused, InvalidName, StoreError
from registry.releases import add
from registry.releases.add import MAX_MANIFEST_BYTES, MAX_MODEL_BYTES, read_folder_manifest
from registry.views.card import Entry, entry_json
from registry.views.card_page import version_in_short

MODEL = "skin-lesion"


def rewritten(change):
    """Changes the record of a `bundle.json`, which stays in its canonical form."""

    def damage(folder):
        path = folder / "bundle.json"
        record = json.loads(path.read_bytes())
        change(record)
        path.write_text(json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False))

    return damage


def model(content):
    """Another `model.onnx`: bytes, a folder, a pipe or none."""

    def damage(folder):
        path = folder / "model.onnx"
        path.unlink()
        {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}.get(content, lambda: None)()

    return damage


def manifest(change):
    """Another text of `bundle.json`."""
    return lambda folder: (folder / "bundle.json").write_bytes(change((folder / "bundle.json").read_bytes()))


def extended(folder):
    with (folder / "model.onnx").open("ab") as file:
        file.write(b"x")


BAD = {
    "no folder": (shutil.rmtree, 2, "FolderError", "cannot be read"),
    "empty": (lambda folder: [one.unlink() for one in folder.iterdir()], 2, "FolderError", "is not there"),
    "no manifest": (lambda folder: (folder / "bundle.json").unlink(), 2, "FolderError", "bundle.json is not"),
    "no model": (model(None), 2, "FolderError", "model.onnx is not there"),
    "a folder for a model": (model("folder"), 2, "FolderError", "model.onnx is no file"),
    "a pipe for a model": (model("pipe"), 2, "FolderError", "model.onnx is no file"),
    "truncated": (manifest(lambda text: text[:-10]), 2, "BundleCorrupt", "is not JSON"),
    "no JSON": (manifest(lambda _: b"\xff\xfe"), 2, "BundleCorrupt", "is not JSON"),
    "a list": (manifest(lambda _: b"[]"), 2, "ManifestError", "a manifest is an object"),
    "reformatted": (manifest(lambda text: json.dumps(json.loads(text), indent=2).encode()),
                    2, "BundleCorrupt", "not in its canonical form"),
    "an older schema": (rewritten(lambda one: one.update(schema_version=0)), 2, "OtherSchema", "version 0"),
    "a newer schema": (rewritten(lambda one: one.update(schema_version=1000)), 2, "OtherSchema", "n 1000"),
    "no labels": (rewritten(lambda one: one.pop("labels")), 2, "ManifestError", "labels"),
    "another model": (extended, 2, "BundleCorrupt", "The model was altered"),
    "a third file": (lambda folder: (folder / "weights.bin").touch(), 1, "BundleRefused", "'weights.bin'"),
    "a third folder": (lambda folder: (folder / "more").mkdir(), 1, "BundleRefused", "move what else"),
    "an area above 1": (rewritten(lambda one: one["evaluation"]["all"]["estimates"].update(auroc=1e308)),
                        2, "ManifestError", "it is from 0 to 1"),
    "more right than tested": (rewritten(lambda one: one["evaluation"]["all"].update(right=51)),
                               2, "ManifestError", "a part is at most the whole"),
}  # fmt: skip


@pytest.mark.sqlite
@pytest.mark.parametrize(("damage", "code", "error", "said"), BAD.values(), ids=BAD)
def test_a_bad_folder_is_refused_in_a_line_with_the_code_that_is_documented(
    command, places, folders, bundle, damage, code, error, said
):
    sound, folder = folders(bundle(seed=1), bundle())
    damage(folder)
    ended = command("add", sound, folder)
    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
    assert ended.err.startswith(f"{error}: ")
    assert said in ended.err
    assert json.loads(command("list", "--json").out) == []
    assert not places.store.exists() or not list(places.store.rglob("*/*/*"))


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


WRONG = {
    "the digest of another": ({"digest": "sha256:" + "0" * 64}, {}, "has a manifest of sha256:"),
    "a pickle": ({}, {"graph": pickle.dumps(Trap())}, "it is a pickle, and no ONNX; export the model"),
    "no graph": ({}, {"graph": b"no graph"}, "it is no ONNX"),
    "another size": ({}, {"size": 16}, "pictures of 16 pixels, and its manifest for pictures of 8"),
    "other classes": ({}, {"classes": 4}, "for 4 classes, and its manifest for 3 classes"),
}


@pytest.mark.parametrize(("replaced", "parts", "said"), WRONG.values(), ids=WRONG)
def test_a_bundle_that_could_not_answer_is_refused_and_with_it_all_others(
    registry, bundle, graph, replaced, parts, said
):
    parts = parts if "graph" in parts or not parts else {"graph": graph(**parts)}
    wrong = dataclasses.replace(bundle(**parts), **replaced)
    with pytest.raises(BundleRefused, match=said):
        registry.add([bundle(seed=1), wrong])
    assert registry.versions() == ()


def test_a_model_of_another_manifest_and_names_that_mislead_are_refused(registry, bundle, graph, tones):
    for wrong, error in (
        (dataclasses.replace(bundle(), model=graph(classes=4)), BundleRefused),
        (bundle(tones("\x1b[2J", "1")), BundleRefused),
        (bundle(model="a/b"), InvalidName),
    ):
        with pytest.raises(error):
            registry.add([bundle(), wrong])
    assert registry.versions() == ()


@pytest.mark.sqlite
def test_what_a_desktop_leaves_is_never_read(bundle, folders):
    (folder,) = folders(bundle())
    (folder / ".DS_Store").write_bytes(pickle.dumps(1))
    assert read_folder_manifest(folder)[0] == bundle().manifest


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("name", "limit"), [("model.onnx", MAX_MODEL_BYTES), ("bundle.json", MAX_MANIFEST_BYTES)]
)
def test_a_file_over_its_limit_is_refused_before_it_is_read(bundle, folders, name, limit, monkeypatch):
    (folder,) = folders(bundle())
    with (folder / name).open("r+b") as file:
        file.truncate(limit + 1)
    monkeypatch.setattr(add, "read_file", lambda file: pytest.fail("it was read"))
    with pytest.raises(BundleRefused, match=rf"has {limit + 1:,} bytes; allowed are {limit:,}"):
        read_folder_manifest(folder)


@pytest.mark.sqlite
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


def test_a_version_of_several_scales_says_the_tones_of_each(registry, bundle):
    over = Subgroup(name="dark", tones={"fitzpatrick": ("5", "6"), "milk10k": ("0", "1")})
    given = bundle(over)
    (version,) = registry.add([given])
    assert registry.version(MODEL, 1) == version
    assert registry.versions(MODEL)[0].subgroup == version.subgroup == over
    assert registry.bundle(version) == given
    (told,) = registry.history(MODEL)[0].details["versions"]
    assert (told["scale"], told["tones"]) == (None, {"fitzpatrick": ["5", "6"], "milk10k": ["0", "1"]})
    assert registry.verify() == ()
    page = version_in_short(entry_json(Entry.of(version, given.manifest)), "", [])
    assert page.title == "version 1 for dark, fitzpatrick 5, 6, milk10k 0, 1"


def test_a_store_that_cannot_be_written_adds_nothing(places, bundle):
    places.store.parent.mkdir()
    places.store.touch()
    with places.open() as registry:
        with pytest.raises(StoreError):
            registry.add([bundle()])
        assert registry.versions() == ()


@pytest.mark.parametrize("loss", ["altered", "missing"])
@pytest.mark.parametrize("file", ["bundle.json", "model.onnx"])
def test_adding_the_bundle_again_puts_its_objects_right(registry, bundle, places, caplog, loss, file):
    (version,) = registry.add([bundle()])
    digest = {"bundle.json": version.digest, "model.onnx": bundle().manifest.file.sha256}[file]
    if loss == "altered":
        places.spoil(digest)
    else:
        places.object(digest).unlink()
    with caplog.at_level(logging.WARNING):
        again = registry.add_and_report([bundle()])
    assert again.repaired == (digest,)
    assert digest in caplog.text
    assert (again.versions, again.new) == ((version,), ())
    assert registry.bundle(version) == bundle()
    assert registry.verify() == ()
    assert len(registry.history(MODEL)) == 1


def test_threads_share_a_registry(registry, bundle):
    def add(seed):
        (version,) = registry.add([bundle(seed=seed)])
        assert registry.version(MODEL, version.number) == version
        registry.current()
        return version.number

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(add, range(16))) == list(range(1, 17))
    assert registry.verify() == ()
