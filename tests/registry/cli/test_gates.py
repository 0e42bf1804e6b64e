"""`dermfed-registry gates` and `approve`, as they are typed."""

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "gates: [{name: spred}]",
            "GateSetInvalid: {file} is no gate set: gates.0: unknown gate `spred`; did you mean `spread`?",
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
