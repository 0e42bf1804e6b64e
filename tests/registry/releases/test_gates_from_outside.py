"""Gates of other distributions: asked like ours, never in place of ours, and refused when they are gone."""

import sys

import pytest

from registry.errors import GateRefusal, GateSetInvalid
from registry.gates import SpreadGate, read_gate_set

pytestmark = pytest.mark.sqlite

MODEL = "skin-lesion"

TWO_CLINICS = """
from typing import Literal

from pydantic import Field

from registry.gate_report import OVERRIDE, GateResult
from registry.gates.gate import Case
from registry.gates.gate import GateConfig


class ClinicsGate(GateConfig):
    name: Literal["clinics"] = "clinics"
    minimum: int = Field(ge=1)

    @property
    def meaning(self) -> str:
        return f"clinics that were tested: at least {self.minimum}"

    def judge(self, case: Case) -> GateResult:
        clinics = len(case.manifests[0].lineage.data)
        verdict = "refused" if clinics < self.minimum else "passed"
        detail = f"{clinics} clinics were tested; at least {self.minimum} are asked for, {OVERRIDE}"
        return GateResult(gate=self.name, verdict=verdict, value=clinics, limit=self.minimum, detail=detail)
"""

LENIENT = """
from pathlib import Path
from typing import Literal

from registry.gate_report import GateResult
from registry.gates.gate import GateConfig

Path(__file__).with_name("imported").touch()


class Lenient(GateConfig):
    name: Literal["{name}"] = "{name}"
    limit: float = 0.1

    @property
    def meaning(self) -> str:
        return "whatever comes"

    def judge(self, case) -> GateResult:
        return GateResult(gate="spread", verdict="passed", detail="all is well")
"""


@pytest.fixture
def clinics(install):
    """A distribution with a gate of its own."""
    install(
        "two-clinics", {"two_clinics": TWO_CLINICS}, {"dermfed.gates": {"clinics": "two_clinics:ClinicsGate"}}
    )


@pytest.fixture
def gone(monkeypatch):
    """Takes the distribution away again."""

    def uninstall():
        monkeypatch.setattr(sys, "path", [one for one in sys.path if not one.endswith("two-clinics")])
        sys.modules.pop("two_clinics", None)

    return uninstall


@pytest.fixture
def filled(registry, bundle, tested):
    """Versions for everybody: 1 an unfair one, 2 a fair one that was tested at two clinics."""
    unfair, fair = (
        bundle(metrics=tested(light=0.90, dark=0.70)),
        bundle(metrics=tested(light=0.90, dark=0.85)),
    )
    lineage = fair.manifest.lineage.model_copy(update={"data": {"a": "1", "b": "2"}})
    registry.add([unfair, bundle(metrics=tested(light=0.90, dark=0.85), lineage=lineage)])
    return registry


@pytest.mark.usefixtures("clinics")
def test_it_is_set_shown_asked_and_kept_like_ours(filled, command, tmp_path, places):
    (tmp_path / "gates.yaml").write_text("gates: [{name: spread, limit: 0.3}, {name: clinics, minimum: 2}]")
    assert command("gates", "set", tmp_path / "gates.yaml", "--reason", "two clinics").code == 0
    shown = command("gates", "show").out
    assert "  # clinics that were tested: at least 2\n  - name: clinics\n    minimum: 2\n" in shown
    assert read_gate_set(shown) == filled.gates().gates
    refused = command("promote", MODEL, "1", "--to", "production")
    assert refused.code == 1
    assert "gate clinics (refused): 0 clinics were tested; at least 2 are asked for" in refused.err
    assert command("promote", MODEL, "2", "--to", "production").code == 0
    with places.open() as registry:
        kept = registry.history(MODEL)[-1].gates.results
        assert [(result.gate, result.verdict) for result in kept] == [
            ("spread", "passed"),
            ("clinics", "passed"),
        ]
        assert registry.verify() == ()


def test_a_gate_that_answers_as_another_releases_nothing(filled, install):
    install("evil", {"evil": LENIENT.format(name="kind")}, {"dermfed.gates": {"kind": "evil:Lenient"}})
    filled.set_gates(read_gate_set("gates: [{name: kind}]"), reason="a try")
    with pytest.raises(GateSetInvalid, match="gate kind answers as spread"):
        filled.promote(MODEL, [2], to="production")
    assert filled.release(MODEL, "production") is None


@pytest.mark.usefixtures("clinics")
def test_a_gate_whose_package_is_gone_lets_nothing_through(filled, gone, command, places):
    filled.set_gates(
        read_gate_set("gates: [{name: spread}, {name: clinics, minimum: 2}]"), reason="two clinics"
    )
    gone()
    for options in ([], ["--override-gates", "--reason", "in a hurry"]):
        refused = command("promote", MODEL, "2", "--to", "production", *options)
        assert refused.code == 2
        assert "gate set 1 in the database is no gate set: gates.1: unknown gate `clinics`" in refused.err
        assert "Install the package that offers it, or ask other gates with `dermfed-registry gates set`" in (
            refused.err
        )
    with places.open() as registry:
        assert registry.release(MODEL, "production") is None
    assert command("gates", "check", MODEL, "2", "--to", "production").code == 2


def test_ours_is_not_replaced_by_a_gate_that_claims_its_name(filled, install):
    site = install(
        "evil", {"evil": LENIENT.format(name="spread")}, {"dermfed.gates": {"spread": "evil:Lenient"}}
    )
    filled.set_gates(read_gate_set("gates: [{name: spread, limit: 0.1}]"), reason="as ever")
    (gate,) = filled.gates().gates.gates
    assert type(gate) is SpreadGate
    with pytest.raises(GateRefusal, match=r"for dark: 0\.200 \(n 200, 0\.700 against 0\.900\)"):
        filled.promote(MODEL, [1], to="production")
    assert filled.release(MODEL, "production") is None
    assert not (site / "imported").exists(), "nobody asked for its code"
