"""`dermfed-registry gates` and `promote`, as they are typed, and as `make demo` types them."""

import json
import re
import shlex
from pathlib import Path

import pytest

from registry.gates import DEFAULT, read_gate_set
from tests.registry.gates.conftest import CANCER

ROOT = Path(__file__).parents[3]
RECIPE = re.search(
    r"^demo: .*\$\(VENV\).*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
).group(1)
TYPED = re.findall(r"^\t\$\(BIN\)/dermfed-registry (.*)$", RECIPE, re.MULTILINE)
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

    def write(text):
        path = tmp_path / "gates.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_gates_are_shown_as_yaml_that_sets_them(added, gates):
    shown = added("gates", "show")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("# gate set 0 for all models\ngates:\n  # test accuracy of the subgroup")
    assert read_gate_set(shown.out) == DEFAULT
    loose = gates(shown.out.replace("limit: 0.1", "limit: 0.25"))
    ended = added("gates", "set", loose, "--reason", "board decision 12")
    assert (ended.code, ended.err) == (0, "")
    change = "gates-changed: set 0 for all models -> set 1 for all models"
    assert f"{change}\n    reason: board decision 12" in ended.out
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
        ("gates: [", "GateSetInvalid: {file} cannot be read as YAML"),
        (b"\xff\xfe", "GateSetInvalid: {file} is not text in UTF-8"),
    ],
)
def test_a_file_that_is_no_gate_set_is_one_line_and_exit_code_2(added, gates, text, said):
    file = gates(text)
    ended = added("gates", "set", file, "--reason", "why")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(said.format(file=file))
    assert added("gates", "set", file).code == 2
    for wrong, error in (
        (file.with_name("nowhere"), "FileNotFoundError"),
        (file.parent, "IsADirectoryError"),
    ):
        ended = added("gates", "set", wrong, "--reason", "t")
        assert (ended.code, ended.err.startswith(f"{error}: {wrong} cannot be used (")) == (2, True)
        assert "check its name, its folder and their permissions" in ended.err


@pytest.mark.parametrize(
    "wrong", [["--override-gates"], ["--override-gates", "--reason", " "], ["--for", "dark"]]
)
def test_wrong_use_of_promote_is_exit_code_2(added, wrong):
    assert added("promote", MODEL, 1, "--to", "production", *wrong).code == 2
    assert added("promote", MODEL, "--to", "production").code == 2
    assert added("show", MODEL).out.startswith(f"no alias of {MODEL} points here")


STATED = ("--prevalence", "dark=0.08")


def test_the_prevalence_of_the_place_is_stated_and_shown(added, gates):
    added("gates", "set", gates("gates: [{name: spread, limit: 0.5}]"), "--reason", "t")
    done = added("promote", MODEL, 1, 2, "--to", "production", *STATED)
    assert done.code == 0, done.err
    said = "stated prevalence of malignancy: dark 0.08"
    assert said in done.out
    assert said in added("show", MODEL).out
    assert said in added("history", MODEL).out
    assert "malignancy at this place: dark 8 %." in added("card", MODEL).out
    shown = json.loads(added("show", MODEL, "--json").out)
    assert shown["prevalence"] == {"production": {"dark": 0.08}}
    assert "nothing to do" in added("promote", MODEL, 1, 2, "--to", "production").out


@pytest.mark.parametrize("wrong", [["dark"], ["=0.1"], ["dark=x"], ["dark=0.1", "dark=0.2"], ["dark=1"]])
def test_what_is_no_prevalence_is_exit_code_2(added, wrong):
    options = [word for text in wrong for word in ("--prevalence", text)]
    ended = added("promote", MODEL, 1, 2, "--to", "production", *options)
    assert (ended.code, ended.out) == (2, "")
    assert "dark" in ended.err or "SUBGROUP=P" in ended.err


@pytest.fixture
def demo(command, folders, bundle, tones):
    """A release as the demo's: all versions of a weak model that answers nothing."""
    row = {"n": 48, "n_malignant": 21, "n_other": 27, "accuracy": 34 / 48, "malignant_sensitivity": 7 / 21}
    row |= {"answered": 0.0, "reported": 0.0, "reported_risk": None}
    rows = dict.fromkeys(("light", "medium", "dark"), row)
    metrics = {"n": 144, "n_malignant": 63, "n_other": 81, "by_subgroup": rows}
    labels = (*CANCER, CANCER[1].model_copy(update={"code": "AK", "malignancy": "premalignant"}))
    parts = {"model": "demo", "labels": labels, "parity": 0.0}
    groups = (None, tones("light", "1", "2"), tones("medium", "3", "4"), tones("dark", "5", "6"))
    for group in groups:
        assert command("add", *folders(bundle(group, metrics, **parts))).code == 0
    return command


def test_the_demo_asks_the_default_gates_which_refuse_a_weak_model(demo, monkeypatch):
    monkeypatch.chdir(ROOT)
    listed, promoted = (demo(*shlex.split(line)) for line in TYPED)
    assert (listed.code, promoted.code) == (0, 1)
    assert "sensitivity for dark: 0.146 (95 % interval 0.146 to 0.570, 0.333, 7 of 21 found)" in promoted.err
    assert "answer rate for dark: 0.000" in promoted.err
    assert "production" not in demo("list").out
    assert not re.search("override|gates set|DERMFED_SERVE_ALIAS", RECIPE)
