import ast
import dataclasses
from datetime import UTC, datetime
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from registry import records
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


def test_what_is_said_of_a_constant_stands_below_it():
    body = ast.parse(Path(records.__file__).read_text()).body
    said = {
        above.target.id: below.value.value
        for above, below in pairwise(body)
        if isinstance(above, ast.AnnAssign) and isinstance(below, ast.Expr)
    }
    assert said["SCOPES"].startswith("All scopes")
    assert "rotated" in said["ROTATION_GRACE"]
    assert "alias" in said["PRODUCTION"]
    texts = [place for place, node in enumerate(body) if isinstance(node, ast.Expr)]
    assert len(texts) == len(said) + 1, "a text stands below no constant"  # the module's own is the other
