"""The gates that ask who or what vouches for the versions: `parity`, `signature`, `approvals`."""

import pytest

from registry.gates import Case
from registry.gates.approvals import ApprovalsGate
from registry.gates.parity import ParityGate
from registry.gates.signature import SignatureGate
from tests.registry.gates.conftest import approved, key


@pytest.fixture
def two(bundle, dark):
    """A release of two versions."""
    return bundle().manifest, bundle(dark).manifest


@pytest.mark.parametrize(
    ("parities", "verdict"),
    [((1e-5, 0.001), "passed"), ((0.0, 0.0), "passed"), ((0.0011, 0.0), "refused"), ((0.0, None), "refused")],
)
def test_every_version_must_answer_as_torch_does(bundle, dark, parities, verdict):
    case = Case((bundle(parity=parities[0]).manifest, bundle(dark, parity=parities[1]).manifest))
    one = ParityGate(limit=0.001).judge(case)
    assert one.verdict == verdict
    assert [finding.value for finding in one.findings] == list(parities)
    if None in parities:
        assert "the bundle for dark does not tell how far ONNX and torch differ" in one.detail
        assert one.untested == ("dark",)


def test_every_version_needs_a_signature_of_its_own(two):
    gate = SignatureGate(identities=("anna", "ben"))
    assert gate.judge(Case(two, signed_by={"global": ("anna",), "dark": ("ben",)})).verdict == "passed"
    one = gate.judge(Case(two, signed_by={"global": ("anna", "ben"), "dark": ("mallory", "mallory")}))
    assert one.verdict == "refused"
    assert "the version for dark (signed by mallory); allowed: anna, ben" in one.detail
    assert [finding.verdict for finding in one.findings] == ["passed", "refused"]
    nobody = gate.judge(Case(two))
    assert "global (not signed), dark (not signed)" in nobody.detail


@pytest.mark.parametrize(
    ("approved_by", "people", "verdict"),
    [
        (("anna", "ben"), 2, "passed"),
        (("anna", "anna"), 2, "refused"),
        (("anna", "chris"), 2, "refused"),
        (("anna", "chris"), 1, "passed"),
        ((), 1, "refused"),
        (("chris",), 1, "refused"),
    ],
)
def test_others_than_the_promoter_count_once_each(two, approved_by, people, verdict):
    case = Case(two, promoter="chris", promoter_key=key("chris"), approvals=approved(*approved_by))
    one = ApprovalsGate(people=people).judge(case)
    assert one.verdict == verdict
    assert one.value == len(set(approved_by) - {"chris"})
    if approved_by == ("chris",):
        assert "approved by nobody (the approval of chris, who promotes, does not count)" in one.detail
