import inspect
import re
from pathlib import Path

import pytest
import typer

import registry
from registry import errors
from registry.cli.app import app
from registry.gates import read_gate_set

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "registry.md").read_text()


def commands(command=None, words="dermfed-registry"):
    """Every command, as it is typed, with itself."""
    command = command or typer.main.get_command(app)
    for name, one in getattr(command, "commands", {}).items():
        if hasattr(one, "commands"):
            yield from commands(one, f"{words} {name}")
        else:
            yield f"{words} {name}", one


@pytest.mark.parametrize(("words", "command"), list(commands()), ids=lambda value: str(value)[:40])
def test_every_command_and_option_is_in_the_docs(words, command):
    (line,) = [line for line in PAGE.splitlines() if line.startswith((f"| `{words} ", f"| `{words}`"))]
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.name not in ("as_json", "help"):
            assert parameter.opts[0] in line


def test_no_command_is_in_the_docs_that_is_not_there():
    known = [words for words, _ in commands()]
    for line in re.findall(r"^\| `(dermfed-registry [^`]*)`", PAGE, flags=re.MULTILINE):
        assert any(f"{line} ".startswith(f"{words} ") for words in known)


def test_the_gate_set_in_the_docs_is_one():
    names = [gate.name for gate in read_gate_set(PAGE.split("```yaml\n")[1].split("```")[0]).gates]
    assert names == ["spread", "worst_malignant_sensitivity", "count", "non_inferiority", "approvals"]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        if not target.startswith("https://"):
            assert (ROOT / "docs" / target).is_file()


def test_the_example_in_the_docs_runs(bundle, tested, dark, folders, tmp_path, monkeypatch, capsys):
    for path, name in zip(folders(bundle(), bundle(dark, tested(dark=0.9))), ("global", "dark"), strict=True):
        path.rename(path.with_name(name))
    monkeypatch.chdir(tmp_path)
    exec(compile(PAGE.split("```python\n")[1].split("```")[0], "registry.md", "exec"), {})
    assert re.fullmatch(r"1 Version\(model='skin-lesion', number=2, .*\n", capsys.readouterr().out)


def test_every_error_is_raised_somewhere():
    """But for those that are only caught by their base."""
    sources = "".join(path.read_text() for path in Path(registry.__file__).parent.rglob("*.py"))
    abstract = {"RegistryError", "Refused"}
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, Exception) and name not in abstract:
            assert f"{name}(" in sources.replace(f"class {name}(", "")
