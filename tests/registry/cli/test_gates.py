"""`dermfed-registry gates` and `approve`, as they are typed."""

import json

import pytest

from registry.gates import DEFAULT, read_gate_set

MODEL = "skin-lesion"
pytestmark = pytest.mark.sqlite  # nothing here depends on the database


@pytest.fixture
def added(command, folders, bundle, tested, dark):
    """Versions: 1 for everybody, unfair to dark; 2 for dark."""
    metrics = tested(light=(0.9, 0.84, 0.94), dark=(0.7, 0.55, 0.82))
    assert command("add", *folders(bundle(metrics=metrics), bundle(dark, tested(dark=0.85)))).code == 0
    return command


@pytest.fixture
def gates(tmp_path):
    """Writes a gate set to a file."""

    def write(text, name="gates.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_gates_are_shown_as_yaml_that_sets_them(added, gates):
    shown = added("gates", "show")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("# gate set 0 for all models\ngates:\n  # test accuracy of the subgroup")
    assert read_gate_set(shown.out) == DEFAULT
    ended = added(
        "gates", "set", gates(shown.out.replace("limit: 0.1", "limit: 0.25")), "--reason", "board decision 12"
    )
    assert (ended.code, ended.err) == (0, "")
    assert (
        "gates-changed: set 0 for all models -> set 1 for all models\n    reason: board decision 12"
        in ended.out
    )
    assert added("gates", "show").out.startswith("# gate set 1 for all models, set by ")
    assert "limit: 0.25" in added("gates", "show", MODEL).out
    assert read_gate_set(added("gates", "show", "--number", 0).out) == DEFAULT
    again = added("gates", "set", gates(added("gates", "show").out), "--reason", "again")
    assert (again.code, again.out) == (0, "nothing to do: gate set 1 for all models asks this\n")
    assert added("gates", "check", MODEL, 1, "--to", "production").code == 0


def test_gates_of_one_model(added, gates):
    file = gates("gates: [{name: count, minimum: 60}, {name: parity, limit: 0.001}]")
    ended = json.loads(added("gates", "set", file, "--model", MODEL, "--reason", "why", "--json").out)
    assert (ended["model"], ended["number"], ended["event"]["kind"]) == (MODEL, 1, "gates-changed")
    shown = json.loads(added("gates", "show", MODEL, "--json").out)
    assert (shown["model"], shown["number"]) == (MODEL, 1)
    assert [(gate["name"], "at least 60" in gate["meaning"]) for gate in shown["gates"]] == [
        ("count", True), ("parity", False),
    ]  # fmt: skip
    assert json.loads(added("gates", "show", "--json").out)["number"] == 0
    history = added("history", MODEL).out
    assert f"gates-changed: set 0 for all models -> set 1 of {MODEL}\n    reason: why" in history


def test_a_check_is_a_table_of_gates_subgroups_figures_and_limits(added, gates):
    added("gates", "set", gates("gates: [{name: spread}, {name: count, minimum: 201}]"), "--reason", "why")
    check = added("gates", "check", MODEL, 1, "--to", "production")
    assert check.code == 1
    lines = check.out.splitlines()
    assert lines[0] == "gate set 1 for all models"
    assert lines[1].split() == ["gate", "subgroup", "figure", "limit", "verdict"]
    rows = [[cell for cell in line.split("  ") if cell] for line in lines[2:5]]
    assert [[cell.strip() for cell in row] for row in rows] == [
        [
            "spread",
            "dark",
            "accuracy below that for light 0.200 (n 200, 0.066 to 0.355)",
            "at most 0.100",
            "refused",
        ],
        ["count", "dark", "test pictures 200", "at least 201", "refused"],
        ["count", "light", "test pictures 200", "at least 201", "refused"],
    ]
    assert lines[5].startswith("gate spread: refused: accuracy is 0.700 for dark (n 200)")
    assert lines[6].startswith("gate count: refused: there are 200 test pictures of dark")


def test_an_override_is_shown_for_ever_after(added):
    why = "--override-gates", "--reason", "board decision 7"
    assert added("promote", MODEL, 1, "--to", "production", *why).code == 0
    assert "GATES OVERRIDDEN by " in added("show", MODEL).out
    assert ": board decision 7" in added("show", MODEL).out
    assert added("promote", MODEL, 2, "--to", "production").code == 0
    assert "GATES OVERRIDDEN" not in added("show", MODEL).out
    assert json.loads(added("show", MODEL, "--json").out)["overridden"] == {}
    assert "GATES OVERRIDDEN" in added("history", MODEL).out
    assert added("rollback", MODEL, "--alias", "production").code == 0
    assert "GATES OVERRIDDEN" in added("show", MODEL, "--alias", "production").out
    shown = json.loads(added("show", MODEL, "--json").out)["overridden"]
    assert shown["production"]["reason"] == "board decision 7"


def test_an_approval_is_told_and_kept(added, gates):
    refused = added("gates", "set", gates("gates: [{name: approvals, people: 1}]"), "--reason", "why")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert refused.err.startswith(
        "ApprovalsMissing: this gate set asks for the approval of 1 person other than"
    )
    ended = added("approve", MODEL, 1, 2, "--to", "production", "--reason", "seen by the ward")
    assert (ended.code, ended.err) == (0, "")
    assert "approved versions 1, 2 for production\n    reason: seen by the ward" in ended.out
    again = added("approve", MODEL, 2, 1, "--to", "production")
    assert (again.code, again.err.split(":")[0]) == (1, "NothingToApprove")
    event = json.loads(added("approve", MODEL, 1, "--to", "staging", "--json").out)["event"]
    assert event["details"]["candidate"].startswith("sha256:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "gates: [{name: spred}]",
            "GateSetInvalid: {file}, gate 1: there is no gate 'spred'; did you mean `spread`?",
        ),
        ("gates: [", "GateSetInvalid: {file} is not YAML"),
        (b"\xff\xfe", "GateSetInvalid: {file} is not text in UTF-8"),
    ],
)
def test_a_file_that_does_not_hold_is_one_line_and_exit_code_2(added, gates, text, said):
    file = gates("")
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = added("gates", "set", file, "--reason", "why")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(said.format(file=file))
    assert added("gates", "set", file.with_name("nowhere"), "--reason", "why").err.startswith(
        "FileNotFoundError"
    )
    assert added("gates", "set", file).code == 2
