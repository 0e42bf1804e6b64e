from pathlib import Path

import pytest

from registry.gate_report import GateReport
from registry.gates import GATES
from registry.gates.gate_set import DEFAULT, read_gate_set

TEXT = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
PAGE = " ".join(TEXT.split())


def test_every_gate_has_an_example(examples):
    assert list(examples) == list(GATES.own)
    for name, one in examples.items():
        assert one.gate.name == name
        assert type(one.gate) is GATES.own[name]


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
        assert result.findings
        assert {finding.verdict for finding in result.findings} >= {result.verdict}
        report = GateReport(results=(result,), set_model="demo", set_number=3)
        assert GateReport.model_validate_json(report.model_dump_json()) == report


@pytest.mark.parametrize("name", GATES.own)
def test_the_docs_say_what_the_gate_says(examples, name):
    one = examples[name]
    assert f"gate {name}: refused: {one.gate.judge(one.refused).detail}" in PAGE


@pytest.mark.parametrize("name", GATES.own)
def test_every_gate_and_its_settings_are_in_the_docs(name):
    settings = [field for field in GATES.own[name].model_fields if field != "name"]
    table = TEXT.split("| gate | settings |")[1].split("\n\n")[0]
    (row,) = [line for line in table.splitlines() if line.startswith(f"| `{name}` |")]
    for setting in settings:
        assert f"`{setting}`" in row.split(" | ")[1]


def test_the_default_in_the_docs_is_the_default():
    shown = TEXT.split("Where nobody has set gates")[1].split("```yaml\n")[1].split("```")[0]
    assert read_gate_set(shown) == DEFAULT
    assert f"refused above {DEFAULT.gates[0].limit:.2f}" in PAGE


def test_a_report_of_a_version_without_findings_still_reads():
    """As the registry of schema 0001 kept it."""
    kept = {
        "results": [
            {"gate": "spread", "verdict": "passed", "value": 0.05, "limit": 0.1, "interval": None,
             "best": {"subgroup": "light", "value": 0.9, "n": 50, "interval": [0.8, 0.95]},
             "worst": {"subgroup": "dark", "value": 0.85, "n": 50, "interval": None},
             "untested": [], "detail": "as it was said"}
        ]
    }  # fmt: skip
    report = GateReport.model_validate(kept)
    assert report.results[0].worst.subgroup == "dark"
    assert (report.results[0].findings, report.set_number) == ((), 0)


def test_the_release_is_refused_if_one_gate_refuses(examples):
    passed = examples["count"].gate.judge(examples["count"].passes)
    refused = examples["parity"].gate.judge(examples["parity"].refused)
    assert not GateReport(results=(passed,)).refused
    report = GateReport(results=(passed, refused))
    assert report.refused
    assert report.detail.startswith("gate parity (refused): ")
    assert "gate count" not in report.detail
