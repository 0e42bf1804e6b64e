import dataclasses
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from registry.bundle.labels import Subgroup
from registry.errors import BundleRefused, InvalidName, StoreError
from registry.views.card import Entry, entry_json
from registry.views.card_page import version_in_short

MODEL = "skin-lesion"


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
        ("another size", "pictures of 16 pixels, and the manifest says pictures of 8"),
        ("another number of classes", "it has 4 classes, and the manifest says 3 classes"),
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
        assert sorted(pool.map(add, range(40))) == list(range(1, 41))
    assert registry.verify() == ()
