"""The gate `approvals`: whose approval counts."""

import pytest

from registry.gates import Case
from registry.gates.approval import ApprovalsGate
from tests.registry.gates.conftest import approved, key


@pytest.mark.parametrize(
    ("approvals", "settings", "counted"),
    [
        (("anna", "ben"), {}, 2),
        (("anna", "chris"), {}, 1),
        ((), {}, 0),
        (("anna", "ben"), {"keys": (key("anna"),)}, 1),
        (("anna", "chris"), {"keys": (key("anna"), key("chris"))}, 1),
    ],
)
def test_each_other_person_with_an_allowed_key_counts_once(bundle, approvals, settings, counted):
    case = Case(
        (bundle().manifest,), promoter="chris", promoter_key=key("chris"), approvals=approved(*approvals)
    )
    one = ApprovalsGate(people=2, **settings).judge(case)
    assert (one.value, one.verdict) == (counted, "passed" if counted >= 2 else "refused")
