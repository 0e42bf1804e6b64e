"""What every gate does, how metrics are read, and whose approval counts."""

import re
from pathlib import Path

import pytest

from registry.gate_report import GateReport
from registry.gates import DEFAULT, GATES, Case, SpreadGate, read_gate_set
from registry.gates.approval import ApprovalsGate
from registry.gates.threshold import CalibrationGate
from tests.registry.gates.conftest import approved, key

TEXT = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()


def test_every_gate_has_an_example(examples):
    assert set(examples) == set(GATES.own)


@pytest.mark.parametrize("name", GATES.own)
def test_what_passes_passes_and_what_is_refused_says_what_to_do(examples, name):
    one = examples[name]
    passed, refused = one.gate.judge(one.passes), one.gate.judge(one.refused)
    assert (passed.gate, passed.verdict) == (name, "passed"), passed.detail
    assert (refused.gate, refused.verdict) == (name, "refused"), refused.detail
    if name != "approvals":  # an override takes the same approvals
        assert refused.detail.endswith(", or override with --override-gates --reason")
    assert "--override" not in passed.detail
    for result in (passed, refused):
        assert result.verdict in {finding.verdict for finding in result.findings}
        report = GateReport(results=(result,), set_model="demo", set_number=3)
        assert GateReport.model_validate_json(report.model_dump_json()) == report


def test_the_refusal_in_the_docs_is_of_the_examples(examples):
    ((name, detail),) = re.findall(r"^    gate (\w+): refused: (.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)
    assert examples[name].gate.judge(examples[name].refused).detail == " ".join(detail.split())


@pytest.mark.parametrize("name", GATES.own)
def test_every_gate_and_its_settings_are_in_the_docs(name):
    table = TEXT.split("| gate | settings |")[1].split("\n\n")[0]
    (row,) = [line for line in table.splitlines() if line.startswith(f"| `{name}` |")]
    for setting in GATES.own[name].model_fields.keys() - {"name"}:
        assert f"`{setting}`" in row.split(" | ")[1]


def test_the_default_in_the_docs_is_the_default():
    shown = TEXT.split("The default set:")[1].split("```yaml\n")[1].split("```")[0]
    assert read_gate_set(shown) == DEFAULT


def test_the_release_is_refused_if_one_gate_refuses(examples):
    passed = examples["count"].gate.judge(examples["count"].passes)
    refused = examples["parity"].gate.judge(examples["parity"].refused)
    assert not GateReport(results=(passed,)).refused
    report = GateReport(results=(passed, refused))
    assert report.refused
    assert report.detail.startswith("gate parity (refused): ")
    assert "gate count" not in report.detail


@pytest.mark.parametrize("row", [{}, {"n": 50}, {"accuracy": 0.9}, {"n": 0, "accuracy": None}])
def test_a_metric_that_is_not_there_was_never_tested(bundle, tested, row):
    metrics = tested(light=0.9, medium=0.9)
    metrics["by_subgroup"]["dark"] = row
    result = SpreadGate().judge(Case((bundle(metrics=metrics).manifest,)))
    assert (result.verdict, result.untested, result.value) == ("refused", ("dark",), None)
    assert "accuracy for dark: never tested. Test on images of dark, or override" in result.detail


def test_images_without_a_declared_tone_are_no_subgroup(bundle, told):
    metrics = told("ece", light=0.1, undeclared=0.9, **{"global": 0.9})
    assert CalibrationGate(limit=0.2).judge(Case((bundle(metrics=metrics).manifest,))).verdict == "passed"


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
    promoter = {"promoter": "chris", "promoter_key": key("chris")}
    case = Case((bundle().manifest,), approvals=approved(*approvals), **promoter)
    one = ApprovalsGate(people=2, **settings).judge(case)
    assert (one.value, one.verdict) == (counted, "passed" if counted >= 2 else "refused")
