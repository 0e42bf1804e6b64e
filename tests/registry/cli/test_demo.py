"""What `make demo` types: the gates refuse its model, and the way on is not an override."""

import re
import shlex
from pathlib import Path

import pytest

from registry.bundle.labels import Label
from registry.gates import DEFAULT, read_gate_set

ROOT = Path(__file__).parents[3]
RECIPE = re.search(
    r"^demo: .*\$\(VENV\).*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
).group(1)
ASKED = re.findall(r"^\t\$\(BIN\)/dermfed-registry (.*)$", RECIPE, re.MULTILINE)
CANCER = (
    Label(code="MEL", name="Melanoma", malignancy="malignant"),
    Label(code="NV", name="Naevus", malignancy="benign"),
    Label(code="AK", name="Actinic keratosis", malignancy="premalignant"),
)
pytestmark = pytest.mark.sqlite  # nothing here depends on the database


@pytest.fixture
def demo(command, folders, bundle, tones):
    """A release as the demo's: all versions of a weak model that answers nobody."""
    row = {"n": 48, "n_malignant": 21, "n_other": 27, "accuracy": 34 / 48, "malignant_sensitivity": 7 / 21}
    row |= {"reported": 0.0, "reported_risk": None}
    rows = dict.fromkeys(("light", "medium", "dark"), row)
    metrics = {"n": 144, "n_malignant": 63, "n_other": 81, "by_subgroup": rows}
    parts = {"model": "demo", "labels": CANCER, "parity": 0.0}
    groups = (None, tones("light", "1", "2"), tones("medium", "3", "4"), tones("dark", "5", "6"))
    for group in groups:
        assert command("add", *folders(bundle(group, metrics, **parts))).code == 0
    return command


def test_the_model_is_refused_and_the_way_on_is_no_override(demo, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "override" not in RECIPE
    commands = [(shlex.split(line.partition(" || ")[0]), line.partition(" || ")[2]) for line in ASKED]
    ended = [(typed[0], typed[-1], may_fail, demo(*typed)) for typed, may_fail in commands]
    assert [(name, one.code) for name, _, _, one in ended] == [
        ("list", 0), ("promote", 1), ("gates", 0), ("promote", 0),
    ]  # fmt: skip
    refused = ended[1]
    assert refused[1:3] == ("production", "test $$? -eq 1")
    assert (
        "sensitivity for dark: 0.146 (95 % interval 0.146 to 0.570, 0.333, 7 of 21 found)" in refused[3].err
    )
    assert "answer rate for dark: 0.000" in refused[3].err
    assert [may_fail for _, _, may_fail, _ in ended] == ["", "test $$? -eq 1", "", ""]
    shown = demo("show", "demo").out
    assert "demonstration" in shown
    assert "OVERRIDDEN" not in shown
    assert "production" not in shown


def test_the_service_of_the_demo_serves_what_was_promoted():
    (alias,) = set(re.findall(r"DERMFED_SERVE_ALIAS=(\w+)", RECIPE))
    assert f"--to {alias} " in RECIPE


def test_the_gates_of_the_demo_are_not_those_of_patients():
    gates = read_gate_set((ROOT / "deployment" / "demo-gates.yaml").read_text())
    assert gates != DEFAULT
    named = re.findall(r"gates set (\S+) --model demo ", RECIPE)
    assert named == ["deployment/demo-gates.yaml"]  # of this model alone
