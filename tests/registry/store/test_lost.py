"""A store that is gone or empty though there are versions: told once, with where it was looked for."""

import json
import shutil

import pytest

from registry.errors import StoreLost

MODEL = "skin-lesion"
pytestmark = pytest.mark.sqlite  # of the store, which is the same for every database


@pytest.fixture(params=["gone", "empty", "without objects"])
def lost(request, registry, places, bundle, dark):
    """A registry of two versions that has lost its store."""
    registry.add([bundle(), bundle(dark)])
    if request.param == "without objects":
        shutil.rmtree(places.store / "objects")
    else:
        shutil.rmtree(places.store)
    if request.param == "empty":
        places.store.mkdir()
    return sorted(path.name for path in places.store.parent.glob("*"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", MODEL),
        ("card", MODEL, "--version", "1"),
        ("diff", MODEL, "1", "2"),
        ("promote", MODEL, "1", "2", "--to", "production"),
        ("approve", MODEL, "1", "2", "--to", "production"),
        ("gates", "check", MODEL, "1", "2", "--to", "production"),
        ("gc",),
        ("gc", "--dry-run"),
    ],
    ids=" ".join,
)
def test_a_command_says_once_that_the_store_is_lost_and_makes_none(command, places, lost, arguments):
    ended = command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"StoreLost: the store was looked for in {places.store}, ")
    assert "--store or DERMFED_STORE, or restore a copy" in ended.err
    assert sorted(path.name for path in places.store.parent.glob("*")) == lost


def test_verify_says_it_in_one_line_and_ends_with_1(command, places, lost):
    ended = command("verify", "--json")
    assert ended.code == 1
    (problem,) = json.loads(ended.out)["problems"]
    assert problem["about"] == "the store"
    assert f"the store was looked for in {places.store}" in problem["text"]
    assert "has 2 versions" in problem["text"]


def test_what_needs_no_store_works_all_the_same(command, lost):
    for arguments in (("list",), ("history", MODEL), ("audit",)):
        assert command(*arguments).code == 0


def test_one_object_that_is_missing_is_named_as_before(command, registry, places, bundle):
    (version,) = registry.add([bundle()])
    places.object(version.digest).unlink()
    ended = command("show", MODEL)
    assert ended.code == 2
    assert ended.err.startswith(f"ObjectMissing: object {version.digest} is not in ")
    assert "add the bundle again" in ended.err


def test_adding_the_versions_again_puts_a_lost_store_right(registry, places, bundle):
    registry.add([bundle()])
    shutil.rmtree(places.store)
    with pytest.raises(StoreLost):
        registry.add([bundle(), bundle(seed=1)])
    assert len(registry.add_and_report([bundle()]).repaired) == 2
    registry.add([bundle(seed=1)])
    assert registry.verify() == ()


def test_a_store_of_a_registry_without_versions_is_not_lost(command, registry):
    for arguments in (("verify",), ("gc",), ("list",)):
        assert command(*arguments).code == 0
