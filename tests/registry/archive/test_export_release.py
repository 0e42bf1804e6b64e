import hashlib
import json
import zipfile

import pytest

from registry.errors import ArchiveError, ObjectCorrupt

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"


@pytest.fixture
def released(registry, pair):
    registry.add(pair)
    registry.promote(MODEL, [1, 2], to="production", reason="first release")
    return registry


@pytest.fixture
def file(tmp_path):
    """Where to export to."""
    return tmp_path / "release.dermfed"


def read(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_file_holds_the_release_and_what_made_it(released, file, pair, signer):
    made = released.sign(MODEL, [2], signer)
    exported = released.export_release(MODEL, "production", file)
    held = read(file)
    assert list(held) == ["release.json", *sorted(held.keys() - {"release.json"})]
    index = json.loads(held.pop("release.json"))
    by_name = {
        **{f"manifests/{one.digest[7:]}.json": one.digest for one in pair},
        **{f"models/{one.manifest.file.sha256[7:]}.onnx": one.manifest.file.sha256 for one in pair},
        f"signatures/{made[0].object[7:]}": made[0].object,
    }
    assert {name: f"sha256:{hashlib.sha256(text).hexdigest()}" for name, text in held.items()} == by_name
    assert [held[f"models/{one.manifest.file.sha256[7:]}.onnx"] for one in pair] == [
        one.model for one in pair
    ]
    assert (index["format"], index["model"], index["alias"], index["release"]) == (1, MODEL, "production", 1)
    assert [(one["number"], one["digest"], one["subgroup"]) for one in index["versions"]] == [
        (1, pair[0].digest, "global"),
        (2, pair[1].digest, "dark"),
    ]
    assert [len(one["signatures"]) for one in index["versions"]] == [0, 1]
    assert index["versions"][1]["signatures"][0]["identity"] == signer.identity
    chain = {one["id"]: one for one in released.audit()}
    assert [one["kind"] for one in index["events"]] == ["added", "promoted", "signed"]
    for one in index["events"]:
        assert (one.pop("key"), one.pop("reason")) == (None, None)
        assert one == {name: chain[one["id"]][name] for name in one}
    assert index["gates"] == index["events"][1]["gates"]
    assert index["gates"]["results"]
    assert (exported.path, exported.bytes) == (file, file.stat().st_size)
    assert (exported.model, exported.release, exported.versions) == (MODEL, 1, (1, 2))
    text = read(file)["release.json"]
    assert exported.digest == f"sha256:{hashlib.sha256(text).hexdigest()}"


def test_its_approvals_and_a_way_back_to_it_are_in_it(person, pair, bundle, file):
    registry = person("olga", "operator", "uploader")
    registry.add([*pair, bundle(seed=9)])
    person("anna", "approver").approve(MODEL, [1, 2], to="production", reason="looked at it")
    registry.promote(MODEL, [1, 2], to="production")
    registry.promote(MODEL, [3], to="production", override_gates=True, reason="a try")
    registry.rollback(MODEL, alias="production")
    registry.export_release(MODEL, "production", file)
    events = json.loads(read(file)["release.json"])["events"]
    assert [one["kind"] for one in events] == ["added", "approved", "promoted", "rolled-back"]


def test_versions_of_one_model_file_hold_it_once(registry, bundle, dark, file):
    registry.add([bundle(), bundle(dark)])
    registry.promote(MODEL, [1, 2], to="production", override_gates=True, reason="a try")
    registry.export_release(MODEL, "production", file)
    assert sorted(name.split("/")[0] for name in read(file)) == [
        "manifests",
        "manifests",
        "models",
        "release.json",
    ]


def test_an_altered_file_is_not_exported_and_nothing_is_left(released, places, tmp_path):
    places.spoil(released.manifest(released.version(MODEL, 2)).file.sha256)
    (tmp_path / "out").mkdir()
    with pytest.raises(ObjectCorrupt):
        released.export_release(MODEL, "production", tmp_path / "out" / "x")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE kind = 'promoted'",
        "DELETE FROM release_members WHERE subgroup = 'dark'",
    ],
)
def test_a_release_that_history_tells_otherwise_is_not_exported(released, places, tmp_path, statement):
    places.tamper(statement)
    with pytest.raises(ArchiveError, match="dermfed-registry verify"):
        released.export_release(MODEL, "production", tmp_path / "x")
    assert not (tmp_path / "x").exists()
