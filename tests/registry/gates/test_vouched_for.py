"""The gates that ask who or what vouches for the versions: `parity`, `signature`, `approvals`."""

import pytest

from registry.gates import Case
from registry.gates.fairness import ParityGate


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
