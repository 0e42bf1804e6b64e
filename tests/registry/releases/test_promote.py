import pytest

from registry.errors import AliasMoved, GateRefusal, NotFound, NothingToRollBack, ObjectCorrupt, ObjectMissing
from registry.releases import promote

MODEL = "skin-lesion"
UNFAIR = {"light": 0.90, "dark": 0.70}


@pytest.fixture
def filled(registry, bundle, tested, light, dark):
    """Versions: 1 an unfair one for everybody; 2 a good and 3 a bad one for dark; 4 for light; 5 untested."""
    registry.add(
        [
            bundle(metrics=tested(**UNFAIR)),
            bundle(dark, tested(dark=0.85)),
            bundle(dark, tested(dark=0.60)),
            bundle(light, tested(light=0.99)),
            bundle(light, {}),
        ]
    )
    return registry


def numbers(registry, alias="production"):
    release = registry.release(MODEL, alias)
    return None if release is None else [version.number for version in release.versions]


def test_versions_of_one_release_change_together(filled):
    assert numbers(filled) is None
    event = filled.promote(MODEL, [2, 1], to="production", reason="  first  ")
    assert numbers(filled) == [1, 2]
    release = filled.release(MODEL, "production")
    assert filled.current() == {MODEL: release}
    assert filled.aliases(MODEL) == {"production": release}
    assert (event.kind, event.actor, event.alias, event.versions) == (
        "promoted",
        "tester",
        "production",
        (2, 1),
    )
    assert (event.release, event.before, event.reason, event.overridden) == (release.id, None, "first", False)
    assert event.gates.results[0].value == pytest.approx(0.05)
    assert filled.history(MODEL)[-1] == event


def test_the_gate_refuses_and_nothing_changes(filled):
    with pytest.raises(GateRefusal) as refused:
        filled.promote(MODEL, [1], to="production")
    for part in (
        "version 1 of skin-lesion cannot go to production",
        "gate spread",
        "gap to light for dark: 0.200 (n 200, 0.700 against 0.900)",
        "0.200",
        "0.100",
    ):
        assert part in str(refused.value)
    assert refused.value.report.refused
    assert numbers(filled) is None
    assert [event.kind for event in filled.history(MODEL)] == ["added"]


def test_carried_over_subgroups_count_in_the_judgement(filled, bundle, tested):
    filled.promote(MODEL, [1, 2], to="production")
    # Alone with the global model this version for light would pass: 0.99 against 0.90 is within 0.10.
    (alone,) = filled.add([bundle(metrics=tested(light=0.90, dark=0.90), seed=1)])
    assert not filled.judge(MODEL, [alone.number, 4], to="staging").refused
    with pytest.raises(GateRefusal, match=r"gap to light for dark: 0\.140 \(.*0\.850 against 0\.990\)"):
        filled.promote(MODEL, [alone.number, 4], to="production")
    assert numbers(filled) == [1, 2]


def test_a_subgroup_that_was_never_tested_is_refused(filled):
    with pytest.raises(GateRefusal, match="accuracy for light: never tested"):
        filled.promote(MODEL, [1, 2, 5], to="production")


def test_an_override_is_kept_in_history_and_told_where_a_gate_had_refused(filled):
    assert filled.overrides(MODEL) == {}
    filled.promote(MODEL, [1], to="production", override_gates=True, reason="no better one")
    filled.promote(MODEL, [1, 2], to="staging", override_gates=True, reason="to be sure")
    event = filled.history(MODEL)[1]
    assert (event.overridden, event.reason) == (True, "no better one")
    result = event.gates.results[0]
    assert (result.verdict, result.worst.subgroup) == ("refused", "dark")
    assert filled.overrides(MODEL) == {event.release: event}
    with pytest.raises(NotFound):
        filled.overrides("skin-leson")


@pytest.mark.parametrize("file", ["bundle.json", "model.onnx"])
def test_a_version_whose_files_are_not_whole_is_not_promoted(filled, places, file):
    version = filled.version(MODEL, 1)
    digest = version.digest if file == "bundle.json" else filled.manifest(version).file.sha256
    places.spoil(digest)
    with pytest.raises(ObjectCorrupt) as refused:
        filled.promote(MODEL, [1, 2], to="production")
    for part in (digest, file, "version 1 of skin-lesion (global)", "dermfed-registry add BUNDLE_DIR"):
        assert part in str(refused.value)
    places.object(digest).unlink()
    with pytest.raises(ObjectMissing, match="add the bundle again"):
        filled.bundle(version)
    assert numbers(filled) is None


def test_a_promotion_in_between_is_judged_anew(filled, places, bundle, tested, light, monkeypatch):
    """Somebody promotes a bad version between the judgement of a good one and its release."""
    filled.add([bundle(metrics=tested(light=0.86, dark=0.86), seed=1), bundle(light, tested(light=0.93))])
    filled.promote(MODEL, [6], to="production")
    swap, tries = promote.swap, []

    def interrupted(engine, judged, *context):
        tries.append([version.number for version in judged.candidate.versions])
        with places.open() as other:
            monkeypatch.setattr(promote, "swap", swap)
            other.promote(MODEL, [3], to="production", override_gates=True, reason="a mistake")
        return swap(engine, judged, *context)

    monkeypatch.setattr(promote, "swap", interrupted)
    with pytest.raises(AliasMoved, match="do it again with --expect 2") as refused:
        filled.promote(MODEL, [7], to="production")
    assert tries == [[6, 7]]
    assert "for dark: 0.330 (n 200, 0.600 against 0.930)" in refused.value.report.detail
    assert numbers(filled) == [6, 3]
    with pytest.raises(GateRefusal, match=r"0\.600 against 0\.930"):
        filled.promote(MODEL, [7], to="production", expect=2)


def test_rollbacks_go_back_one_release_each(filled, bundle, tested):
    filled.add([bundle(metrics=tested(light=0.9, dark=0.9), seed=seed) for seed in (1, 2, 3)])
    for number in (6, 7, 8):
        filled.promote(MODEL, [number], to="production")
    first = filled.rollback(MODEL, alias="production", reason="worse")
    assert numbers(filled) == [7]
    assert (first.kind, first.alias, first.versions, first.reason) == (
        "rolled-back",
        "production",
        (),
        "worse",
    )
    promotions = [event for event in filled.history(MODEL) if event.kind == "promoted"]
    assert (first.before, first.release) == (promotions[2].release, promotions[1].release)
    filled.rollback(MODEL, alias="production")
    assert numbers(filled) == [6]
    with pytest.raises(NothingToRollBack, match="none before it"):
        filled.rollback(MODEL, alias="production")
    assert numbers(filled) == [6]
    assert filled.verify() == ()

    filled.promote(MODEL, [8], to="production")
    filled.promote(MODEL, [7], to="production")
    filled.rollback(MODEL, alias="production")
    assert numbers(filled) == [8]
    filled.rollback(MODEL, alias="production")
    assert numbers(filled) == [6]  # not 7 or 8 of before: those were taken off
    assert [event.kind for event in filled.history(MODEL)].count("rolled-back") == 4
    assert filled.verify() == ()


def test_a_rollback_asks_no_gate_and_leaves_other_aliases(filled):
    filled.promote(MODEL, [1], to="production", override_gates=True, reason="first")
    filled.promote(MODEL, [2], to="production")
    filled.promote(MODEL, [1, 2], to="staging")
    event = filled.rollback(MODEL, alias="production")
    assert event.gates is None
    assert numbers(filled) == [1]
    assert numbers(filled, "staging") == [1, 2]


def test_of_an_alias_that_never_was_nothing_is_rolled_back(filled):
    with pytest.raises(NotFound, match="no alias 'production' of model 'skin-lesion'; there is no alias yet"):
        filled.rollback(MODEL, alias="production")
