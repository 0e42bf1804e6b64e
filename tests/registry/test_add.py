import dataclasses
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from registry.bundle.errors import FolderError
from registry.bundle.manifest.schema import ModelFile, Subgroup
from registry.errors import BundleRefused, InvalidName, NotFound, StoreError
from registry.rendering.records import version_page

MODEL = "skin-lesion"


def test_versions_are_numbered_for_each_model(registry, bundle, dark):
    first = registry.add([bundle(), bundle(dark), bundle(model="other")])
    second = registry.add([bundle(seed=1)])
    assert [(one.model, one.number) for one in (*first, *second)] == [
        (MODEL, 1), (MODEL, 2), ("other", 1), (MODEL, 3),
    ]  # fmt: skip
    assert registry.models() == ("other", MODEL)
    assert registry.versions(MODEL) == (*first[:2], *second)
    assert registry.versions() == (first[2], *first[:2], *second)
    assert registry.version(MODEL, 2) == first[1]


def test_a_version_says_whom_it_is_for_and_when_it_was_added(registry, bundle, dark):
    (version,) = registry.add([bundle(dark)])
    assert version.subgroup == dark
    assert version.digest == bundle(dark).digest
    assert version.created.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - version.created) < timedelta(minutes=1)
    assert registry.version(MODEL, 1) == version


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
    page = version_page(version, given.manifest)
    assert "version 1 for dark, fitzpatrick 5, 6, milk10k 0, 1\n" in page


def test_a_bundle_reads_back_as_it_was(registry, bundle, dark, folders):
    given = [bundle(), bundle(dark, {"by_subgroup": {}})]
    versions = registry.add_folders(folders(*given))
    assert [registry.bundle(version) for version in versions] == given
    assert [registry.manifest(version) for version in versions] == [one.manifest for one in given]


def test_adding_again_gives_the_same_version_and_tells_nothing(registry, bundle):
    first = registry.add([bundle()])
    again = registry.add_and_tell([bundle(), bundle(), bundle(seed=1)])
    assert again.versions[:2] == first * 2
    assert again.new == again.versions[2:]
    assert again.repaired == ()
    assert [event.versions for event in registry.history(MODEL)] == [(1,), (2,)]


def test_what_was_added_is_told_once_for_each_model(registry, bundle):
    registry.add([bundle(), bundle(model="other"), bundle(seed=1)])
    (event,) = registry.history(MODEL)
    assert (event.kind, event.actor, event.versions) == ("added", "tester", (1, 2))
    assert (event.alias, event.release, event.before, event.gates, event.overridden) == (None,) * 4 + (False,)
    assert event.time.utcoffset() == timedelta(0)
    assert [one.versions for one in registry.history("other")] == [(1,)]


def wrong_bundles(bundle, graph, tones):
    sound = bundle()
    return {
        "the digest of another": dataclasses.replace(sound, digest="sha256:" + "0" * 64),
        "the model of another": dataclasses.replace(sound, model=graph(classes=4)),
        "no graph": bundle(graph=b"no graph"),
        "another size": bundle(graph=graph(size=16)),
        "another number of classes": bundle(graph=graph(classes=4)),
        "a name that clears the screen": bundle(tones("\x1b[2J", "1")),
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("the digest of another", "has a manifest of sha256:"),
        ("the model of another", "its model has sha256:"),
        ("no graph", "it is no ONNX"),
        ("another size", "16 pixels and a picture rule of 8"),
        ("another number of classes", "3 labels and a model of 4 classes"),
        ("a name that clears the screen", "could mislead: subgroup .*printable"),
    ],
)
def test_a_bundle_that_could_not_answer_is_refused_and_with_it_all_others(
    registry, bundle, graph, tones, wrong, said
):
    with pytest.raises(BundleRefused, match=said):
        registry.add([bundle(seed=1), wrong_bundles(bundle, graph, tones)[wrong]])
    assert registry.versions() == ()


def test_a_model_needs_a_name_that_can_be_part_of_an_address(registry, bundle):
    with pytest.raises(InvalidName):
        registry.add([bundle(), bundle(model="a/b")])
    assert registry.versions() == ()


def test_a_folder_without_a_bundle_adds_nothing(registry, bundle, folders, tmp_path):
    with pytest.raises(FolderError):
        registry.add_folders([*folders(bundle()), tmp_path / "nothing"])
    assert registry.versions() == ()


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
        again = registry.add_and_tell([bundle()])
    assert again.repaired == (digest,)
    assert digest in caplog.text
    assert (again.versions, again.new) == ((version,), ())
    assert registry.bundle(version) == bundle()
    assert registry.verify() == ()
    assert len(registry.history(MODEL)) == 1


def test_one_model_file_may_be_that_of_many_versions(registry, bundle, places):
    registry.add([bundle(seed=seed) for seed in range(5)])
    assert len([path for path in places.store.rglob("objects/*/*") if path.is_file()]) == 6
    assert ModelFile.of(registry.bundle(registry.version(MODEL, 5)).model) == bundle().manifest.file


def test_unknown_models_and_versions_are_told_the_nearest(registry, bundle):
    with pytest.raises(NotFound, match="there is no model yet"):
        registry.versions(MODEL)
    registry.add([bundle()])
    for ask in (registry.versions, registry.history, registry.aliases):
        with pytest.raises(NotFound, match="'skin-leson'; the nearest: skin-lesion"):
            ask("skin-leson")
    for number in (0, -1, 2, 10**30):
        with pytest.raises(NotFound, match=f"no version {number} of model 'skin-lesion'; the nearest: 1"):
            registry.version(MODEL, number)


def test_threads_share_a_registry(registry, bundle):
    def add(seed):
        (version,) = registry.add([bundle(seed=seed)])
        assert registry.version(MODEL, version.number) == version
        registry.current()
        return version.number

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(add, range(40))) == list(range(1, 41))
    assert registry.verify() == ()
