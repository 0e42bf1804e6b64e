from datetime import UTC, datetime

import pytest

from registry.bundle.labels import Subgroup
from registry.errors import ReleaseRefused
from registry.records import Release, Version
from registry.releases.compose import check_integrity, compose


def version(number, subgroup=None):
    return Version(
        "m", number, f"sha256:{number:064}", subgroup or Subgroup(), datetime(2026, 1, 1, tzinfo=UTC)
    )


def numbers(candidate):
    return [one.number for one in candidate.versions]


def test_named_versions_replace_those_of_their_subgroup_and_the_others_are_carried_over(light, dark):
    before = Release(7, "m", (version(1), version(2, light), version(3, dark)))
    candidate = compose("m", "production", [version(4, dark), version(5)], before)
    assert numbers(candidate) == [5, 4, 2]  # global, dark, light
    assert not candidate.changes_nothing


def test_the_first_release_is_what_is_named(dark):
    assert numbers(compose("m", "production", [version(2, dark), version(1)], None)) == [1, 2]


def test_naming_what_is_there_changes_nothing(light):
    before = Release(7, "m", (version(1), version(2, light)))
    assert compose("m", "production", [version(2, light)], before).changes_nothing
    assert compose("m", "production", [version(1)], before).changes_nothing
    assert not compose("m", "production", [version(3)], before).changes_nothing


def test_naming_a_version_twice_is_naming_it():
    assert numbers(compose("m", "production", [version(1), version(1)], None)) == [1]


def test_two_versions_for_one_subgroup_are_refused(dark):
    with pytest.raises(ReleaseRefused, match="versions 2 and 3 of m are both for dark"):
        compose("m", "production", [version(1), version(2, dark), version(3, dark)], None)


def test_nothing_named_is_refused():
    with pytest.raises(ReleaseRefused, match="no version"):
        compose("m", "production", [], None)


def check(bundle, *versions, codes=None):
    """Check a release of these versions, whose labels are `codes` by number or all alike."""
    manifests = {
        one.number: bundle(codes=(codes or {}).get(one.number, ("MEL", "NV"))).manifest for one in versions
    }
    check_integrity(compose("m", "production", versions, None), manifests)


def test_a_release_needs_a_version_for_everybody(bundle, dark, light):
    with pytest.raises(ReleaseRefused, match=r"no version for everybody, only 2 \(dark\), 1 \(light\)"):
        check(bundle, version(1, light), version(2, dark))
    check(bundle, version(3), version(1, light), version(2, dark))


@pytest.mark.parametrize(("tone", "scale"), [("4", "fitzpatrick"), ("IV", "fitzpatrick"), ("x", "our own")])
def test_a_tone_belongs_to_one_subgroup(bundle, tones, tone, scale):
    first = tones("first", "4" if scale == "fitzpatrick" else "x", scale=scale)
    with pytest.raises(ReleaseRefused, match="both claim the skin tone"):
        check(bundle, version(1), version(2, first), version(3, tones("second", tone, scale=scale)))


@pytest.mark.parametrize(("tone", "scale"), [("IV", "fitzpatrick"), ("2", "milk10k")])
def test_a_tone_of_any_scale_belongs_to_one_subgroup(bundle, tones, tone, scale):
    over = Subgroup(name="over", tones={"fitzpatrick": ("4",), "milk10k": ("2", "3")})
    with pytest.raises(ReleaseRefused, match=rf"3 \(other\) and 2 \(over\) .* of the scale '{scale}'"):
        check(bundle, version(1), version(2, over), version(3, tones("other", tone, scale=scale)))
    check(bundle, version(1), version(2, over), version(3, tones("other", "5", scale=scale)))


def test_the_same_value_on_another_scale_is_another_tone(bundle, tones):
    check(
        bundle, version(1), version(2, tones("a", "4")), version(3, tones("b", "4", scale="monk")),
        version(4, tones("c", "5", "5")),
    )  # fmt: skip


@pytest.mark.parametrize("codes", [("NV", "MEL"), ("MEL", "BCC"), ("MEL", "NV", "AK")])
def test_all_versions_have_the_same_labels_in_the_same_order(bundle, dark, codes):
    with pytest.raises(ReleaseRefused, match=r"version 2 \(dark\) of m answers"):
        check(bundle, version(1), version(2, dark), codes={2: codes})
