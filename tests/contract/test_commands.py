"""The commands are those of `surface.yaml`, with meaningful exit codes."""

from importlib.metadata import version

import pytest

from tests.contract.surface import NAMES, Help, read_list, read_tree, unlisted

KEPT, REMOVED = read_list()


@pytest.fixture(scope="module")
def tree(command):
    """The help of every command."""

    def ask(name: str, *arguments: str) -> tuple[int, str, str]:
        ended = command(name, *arguments)
        return ended.code, ended.out, ended.err

    return read_tree(ask, KEPT)


@pytest.mark.parametrize("name", KEPT)
def test_help_names_what_the_list_keeps_and_nothing_else(tree, name):
    assert list(KEPT[name].differences(name, tree)) == []


def test_every_command_is_on_the_list(tree):
    assert list(unlisted(tree)) == []


def test_help_is_parsed_with_boxes_and_without():
    plain = """Usage: dermfed-x [OPTIONS] {MODEL} [VERSION...]...

  Runs --nothing and does it.

Options:
  -o, --out FILE  Where to. See
                  --other.
  --[no-]json     Answer.

Commands:
  keep     Keeps
           what there is.
  keep-on
"""
    boxes = """
 Usage: dermfed-x [OPTIONS] JOB.yaml

╭─ Options ────╮
│ *  --out  <path>  Where. │
╰──────────────╯
╭─ Commands ───╮
│ keep   Keeps. │
╰──────────────╯
"""
    assert Help.parse(plain).parameters >= {"MODEL", "VERSION", "--out"}
    assert Help.parse(plain).commands == ("keep", "keep-on")
    assert Help.parse(boxes) == Help(frozenset({"JOB.yaml", "--out"}), ("keep",))


@pytest.mark.parametrize("name", [each for each in NAMES if "--version" in KEPT[each].kept])
def test_version_is_that_of_the_distribution(command, name):
    ended = command(name, "--version")
    assert (ended.code, version("dermfed") in ended.out) == (0, True)


@pytest.mark.parametrize("name", KEPT)
def test_an_unknown_option_ends_with_2(command, name):
    ended = command(*name.split(), "--no-such-option")
    assert (ended.code, ended.out) == (2, "")
    assert "--no-such-option" in ended.err


BAD_INPUT = """
train absent.yaml
train absent.yaml --check
train --compare absent
train encoders absent.pth
train init absent.csv --yes
data check absent.csv
data describe absent.csv
data import csv absent --out made.csv
data import no-such-adapter . --out made.csv
data link absent.csv --out made.csv
data partition absent.csv --by parts --count 2 --out made
data report absent.csv --out made.html
data tones absent.csv
data withdraw absent.csv --patient 1 --splits absent.yaml --out made.csv
data synth --out made --pictures -1
registry add absent
registry show absent
registry promote absent 1 --to production
registry promote absent one --to production
registry rollback absent --alias production
registry card ./absent
registry gates set absent.yaml --reason none
registry gates set gates.yaml --reason none
registry import absent.dermfed
registry people add anna --public absent.pub --role operator
registry verify --head absent.json
registry verify --trust absent.pub
registry --url mysql://localhost/registry list
outcomes import absent.csv --url sqlite:///outcomes.db
outcomes export made.csv --url sqlite:///absent/outcomes.db
serve --port 70000
serve --url mysql://localhost/registry
diagnose absent.jpg
diagnose --cases absent.csv
node provision absent.yaml --out kits
node renew absent.yaml --out kits
node check --kit absent
node start --kit absent
node journal --kit absent
node disable north --kit absent
"""


@pytest.mark.parametrize("line", BAD_INPUT.strip().splitlines())
def test_bad_input_ends_with_2_and_makes_nothing(command, tmp_path, line):
    (tmp_path / "gates.yaml").write_text("gates:\n  - {name: no_such_gate, limit: 1}\n")
    places = {"DERMFED_REGISTRY_URL": f"sqlite:///{tmp_path / 'registry.db'}", "DERMFED_STORE": "store"}
    ended = command(*line.split(), environment=places, folder=tmp_path)
    assert (ended.code, ended.err != "") == (2, True), ended.out
    assert "Traceback" not in ended.err
    assert not {each.name for each in tmp_path.glob("made*")}


def test_what_a_rule_refuses_ends_with_1(command, trained, tmp_path):
    command("data", "synth", "--out", "made", "--pictures", "6", folder=tmp_path)
    manifest = next((tmp_path / "made").glob("*.csv"))
    (tmp_path / "broken.csv").write_text(manifest.read_text() + "made/absent.png,nevus\n")
    (tmp_path / "job.yaml").write_text("name: kept\n")
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    refused = """
registry gates check contract 1 2 3 --to production
registry promote contract 1 2 3 --to production
registry promote contract 1 --to production --expect 7
registry verify --head 1:sha256:0000000000000000000000000000000000000000000000000000000000000000
data check broken.csv
train init made/manifest.csv --yes --out job.yaml
diagnose broken.jpg --url http://127.0.0.1:9
"""
    codes = {
        line: command(*line.split(), environment=trained.environment, folder=tmp_path).code
        for line in refused.strip().splitlines()
    }
    assert codes == dict.fromkeys(codes, 1)
    assert (tmp_path / "job.yaml").read_text() == "name: kept\n"
