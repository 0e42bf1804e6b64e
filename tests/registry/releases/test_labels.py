"""Tags and notes: what history keeps of them, what `verify` finds, and finding versions."""

import pytest

from registry.errors import InvalidName
from registry.views.records import event_lines

MODEL = "skin-lesion"


@pytest.fixture
def filled(registry, bundle, dark):
    """Versions 1 for everybody and 2 for dark, and version 1 of another model."""
    registry.add([bundle(), bundle(dark), bundle(model="nails")])
    return registry


def test_tags_come_and_go_and_history_keeps_it(filled):
    event = filled.tag(MODEL, 2, ["reviewed", "trial-2", "reviewed"])
    assert (event.kind, event.versions, event.details) == ("tagged", (2,), {"tags": ["reviewed", "trial-2"]})
    assert event_lines(event).endswith("tagged version 2: reviewed, trial-2")
    assert filled.tag(MODEL, 2, ["reviewed"]) is None
    assert filled.tag(MODEL, 2, ["reviewed", "b"]).details == {"tags": ["b"]}
    assert filled.tags() == filled.tags(MODEL) == {(MODEL, 2): ("b", "reviewed", "trial-2")}
    assert filled.tags("nails") == {}
    event = filled.untag(MODEL, 2, ["b", "trial-2"])
    assert (event.kind, event.details) == ("untagged", {"tags": ["b", "trial-2"]})
    assert filled.tags() == {(MODEL, 2): ("reviewed",)}
    assert filled.tag(MODEL, 2, ["b"]) is not None
    assert filled.verify() == ()


@pytest.mark.parametrize("tag", ["", "two words", "a/b", "x" * 101, "-x"])
def test_what_can_be_no_tag(filled, tag):
    with pytest.raises(InvalidName, match="tag"):
        filled.tag(MODEL, 1, ["fine", tag])
    assert filled.tags() == {}


def test_versions_are_found_by_what_the_database_holds(filled):
    filled.tag(MODEL, 1, ["Reviewed"])
    filled.note("nails", 1, "Weak on the soles of FEET")
    filled.withdraw(MODEL, [2], reason="misses melanoma")
    dark = filled.version(MODEL, 2)

    def found(text):
        return [(one.model, one.number, *one.because) for one in filled.find(text)]

    assert found("review") == [(MODEL, 1, "tag: Reviewed")]
    assert found("of feet") == [("nails", 1, "note: Weak on the soles of FEET")]
    assert found("melanoma") == [(MODEL, 2, "withdrawal: misses melanoma")]
    assert found("DARK") == [(MODEL, 2, "subgroup: dark")]
    assert found("nail") == [("nails", 1, "model: nails")]
    for text in (dark.digest, dark.digest[7:19], dark.digest[7:19].upper()):
        assert found(text) == [(MODEL, 2, f"digest: {dark.digest}")]
    file = filled.manifest(dark).file.sha256
    assert {one.because for one in filled.find(file[:20])} == {(f"digest of model.onnx: {file}",)}
    assert len(filled.find(file[:20])) == 3
    assert found(dark.digest[10:20]) == []
    assert found("100%") == found("_") == []
    with pytest.raises(InvalidName, match="nothing to find"):
        filled.find("  ")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM tags WHERE tag = 'reviewed'", "events tell of it and it is gone"),
        ("UPDATE tags SET tag = 'approved'", "it has tags ['approved'] instead of ['reviewed']"),
        ("INSERT INTO tags VALUES (1, 'x')", "no event tells of it"),
    ],
)
def test_verify_finds_tags_that_nobody_gave(filled, places, statement, told):
    filled.tag(MODEL, 2, ["reviewed", "b"])
    filled.untag(MODEL, 2, ["b"])
    places.tamper(statement)
    (issue,) = filled.verify()
    assert told in issue.text
