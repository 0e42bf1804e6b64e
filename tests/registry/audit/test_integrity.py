import pytest

from registry.database import changes
from registry.database.connection import writing
from tests.registry.conftest import draw_bundle, figures, tones_of

pytestmark = pytest.mark.sqlite

MODEL = "skin-lesion"


def release(registry):
    even = figures(light=0.9, dark=0.9)
    own = draw_bundle(tones_of("dark", "4", "5", "6"), figures(dark=0.9))
    registry.add([draw_bundle(metrics=even), own, draw_bundle(metrics=even, seed=1)])
    registry.promote(MODEL, [1, 2], to="production")
    registry.promote(MODEL, [3], to="production")
    registry.rollback(MODEL, alias="production")


@pytest.fixture
def released(filled):
    """Versions 1 to 3, and 1 and 2 in production after a rollback."""
    return filled(release)


def found(registry):
    return [f"{problem.about}: {problem.text}" for problem in registry.verify()]


@pytest.mark.parametrize("harm", ["altered", "missing"])
def test_a_manifest_that_is_not_there_as_it_was(released, places, harm):
    digest = released.version(MODEL, 2).digest
    places.spoil(digest) if harm == "altered" else places.object(digest).unlink()
    (problem,) = found(released)
    for part in ("bundle.json", "version 2 of skin-lesion (dark)", digest, harm, "dermfed-registry add"):
        assert part in problem


@pytest.mark.parametrize("harm", ["altered", "missing"])
def test_a_model_that_is_not_there_as_it_was_is_told_for_every_version(released, places, harm):
    digest = released.manifest(released.version(MODEL, 1)).file.sha256
    places.spoil(digest) if harm == "altered" else places.object(digest).unlink()
    problems = found(released)
    assert [problem.split(":")[0] for problem in problems] == [
        "model.onnx of version 1 of skin-lesion (global)",
        "model.onnx of version 2 of skin-lesion (dark)",
        "model.onnx of version 3 of skin-lesion (global)",
    ]
    assert all(digest in problem and harm in problem for problem in problems)


@pytest.mark.parametrize(
    ("statements", "parts"),
    [
        (["DELETE FROM versions WHERE number = 3"], ["the database", "table release_members", "versions"]),
        (
            ["DELETE FROM release_members WHERE version_id = 3", "DELETE FROM versions WHERE number = 2"],
            ["the database", "versions"],
        ),
        (["UPDATE aliases SET release_id = 99"], ["the database", "table aliases", "releases"]),
        (
            ["UPDATE aliases SET release_id = 2"],
            ["alias production of skin-lesion", "release 2", "ends at 1"],
        ),
        (
            ["UPDATE releases SET model = 'other' WHERE id = 1"],
            ["release 1 of other", "alias production", "no event tells"],
        ),
        (["DELETE FROM aliases"], ["alias production of skin-lesion", "gone"]),
        (["DELETE FROM events WHERE kind = 'promoted'"], ["alias production of skin-lesion", "none"]),
        (["DROP TABLE api_keys"], ["the schema", "api_keys"]),
        (["DROP INDEX ix_events_model_alias"], ["the schema", "ix_events_model_alias"]),
    ],
)
def test_what_was_changed_behind_its_back_is_found(released, places, statements, parts):
    places.tamper(*statements)
    told = "\n".join(found(released))
    for part in parts:
        assert part in told


def test_verifying_changes_nothing(released, places):
    places.spoil(released.version(MODEL, 1).digest)
    before = places.content()
    assert released.verify() == released.verify() != ()
    assert places.content() == before


@pytest.mark.parametrize(
    ("did", "details"),
    [
        ("tagged", {"tags": ["reviewed"]}),
        ("untagged", {"tags": 3}),
        ("withdrawn", {"withdrawn": [5]}),
        ("person-added", {"name": "eve"}),
        ("person-revoked", {"fingerprint": "x", "revoked": "yesterday"}),
        ("added", {"signed": "me"}),
    ],
)
def test_an_event_in_no_form_of_ours_is_told_and_ends_nothing(registry, person, bundle, did, details):
    """Whoever may write to the database puts in an event that fits the chain, and says nonsense."""
    person("olga").add([bundle()])
    with writing(registry._engine) as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "acting_person", lambda *_: None)
        if did == "person-revoked":
            details = {**details, "fingerprint": registry.people()[0].fingerprint}
        changes.insert_event(connection, did, "skin-lesion", changes.AuditContext("eve"), details=details)
    assert registry.verify() != ()
