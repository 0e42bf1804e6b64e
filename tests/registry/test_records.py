import dataclasses
from datetime import UTC, datetime
from itertools import permutations

import pytest

from registry.bundle.manifest.schema import Subgroup
from registry.records import Release, Version


def test_a_release_is_in_order_whatever_order_it_was_made_in(tones):
    subgroups = [Subgroup(), tones("a", "1"), tones("b", "2"), tones("z", "3")]
    versions = [
        Version("m", 9 - k, "sha256:" + "0" * 64, subgroup, datetime.now(UTC))
        for k, subgroup in enumerate(subgroups)
    ]
    for order in permutations(versions):
        release = Release(1, "m", order)
        assert release.versions == tuple(versions)
        assert release.everybody is versions[0]
        assert release.for_subgroup("b") is versions[2]
        assert release.for_subgroup("c") is None


def test_a_release_never_changes():
    release = Release(1, "m", ())
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.versions = ()
