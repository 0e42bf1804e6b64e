"""Kits that the previous version made are taken as they are, and name nothing that is gone."""

import importlib
import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.loopback.permissive import permissive
from tests.fixtures import PREVIOUS, command
from tests.fixtures.making.federation import HOSPITALS, KITS, PORT

FOLDER = PREVIOUS / "federation"
NODES = ("server", *HOSPITALS)
# What a job needs of the classes that a site lets it name, see `docs/threat-model.md`.
AT_A_HOSPITAL = {"clients.node.hospital.Hospital", "nvflare.collab.runtime.executor.CollabExecutor"}
ALLOWED = {
    "server": {"training.coordinator.Coordinator", "nvflare.collab.runtime.controller.CollabController"},
    **dict.fromkeys(HOSPITALS, AT_A_HOSPITAL),
}
NAMING = ("path", "class", "()")  # keys of settings whose values are dotted names


@pytest.fixture
def node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Call `dermfed-node` with these arguments; gives its exit code and what it printed."""
    main = command("dermfed-node")

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["dermfed-node", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, capsys.readouterr().out

    return call


@pytest.fixture
def kits(tmp_path: Path) -> Iterator[Path]:
    """A copy of all kits, with a coordinator that listens at a port of this machine."""
    folder = tmp_path / "kits"
    shutil.copytree(FOLDER / "kits", folder)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix in (".json", ".yaml"):
                path.write_text(path.read_text().replace(KITS, str(folder)).replace(str(PORT), port))
        text = (FOLDER / "federation.yaml").read_text()
        (tmp_path / "federation.yaml").write_text(text.replace(str(PORT), port))
        yield folder


@pytest.fixture
def renewed(kits: Path, node: Callable[..., tuple[int, str]]) -> Path:
    """The kits with this year's certificates: those of the fixture are good for a year after it was made."""
    assert node("renew", kits.parent / "federation.yaml", "--out", kits)[0] == 0
    return kits


def findings(told: str) -> dict[str, dict[str, Any]]:
    """What `dermfed-node check --json` found, by what it is about."""
    return {each["about"]: each for each in json.loads(told)}


@pytest.mark.parametrize("name", HOSPITALS)
def test_a_hospital_is_fit_to_take_part_with_its_kit(name, renewed, node, tmp_path, monkeypatch):
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    permissive(renewed / name)
    data, job = FOLDER / "manifests" / f"{name}.csv", FOLDER / "job.yaml"
    code, told = node("check", "--kit", renewed / name, "--data", data, "--job", job, "--json")
    found = findings(told)
    assert {"versions", "certificate", "clock", "connection", "disk"} < found.keys()
    assert [each for each in found.values() if not each["fit"]] == []
    assert code == 0
    assert f"CN={name}" in found["certificate"]["text"]


def test_the_coordinator_is_fit_with_its_kit(renewed, node):
    found = findings(node("check", "--kit", renewed / "server", "--json")[1])
    assert found.pop("port")["text"], "it is in use: by this test"
    assert [each for each in found.values() if not each["fit"]] == []


@pytest.mark.parametrize("name", NODES)
def test_a_kit_that_was_not_renewed_lacks_nothing_but_time(name, kits, node):
    found = findings(node("check", "--kit", kits / name, "--json")[1])
    certificate = found["certificate"]
    assert certificate["fit"] or certificate["text"].startswith("not valid now")


@pytest.mark.parametrize("name", NODES)
def test_it_allows_the_classes_that_jobs_name_now(name, renewed, node, tmp_path):
    allowed = resources(FOLDER / "kits" / name)["class_allow_list"]
    assert set(allowed) == ALLOWED[name]
    node("provision", renewed.parent / "federation.yaml", "--out", tmp_path / "new")
    assert allowed == resources(tmp_path / "new" / name)["class_allow_list"]


def resources(kit: Path) -> dict[str, Any]:
    """What a site allows, and of which parts it is made."""
    found: dict[str, Any] = json.loads((kit / "local" / "resources.json").read_text())
    return found


def dotted(settings: Any) -> set[str]:
    """Every dotted name in a settings file."""
    if isinstance(settings, dict):
        own = {each for key, each in settings.items() if key in NAMING and isinstance(each, str)}
        own |= set(settings.get("class_allow_list", ()))
        settings = list(settings.values())
    else:
        own = set()
    inner = settings if isinstance(settings, list) else ()
    return own.union(*(dotted(each) for each in inner))


def test_every_dotted_name_in_a_kit_is_there():
    named: set[str] = set()
    for path in (FOLDER / "kits").rglob("*.json"):
        named |= {name for name in dotted(json.loads(path.read_text())) if "." in name}
    assert named > set().union(*ALLOWED.values())
    for name in sorted(named):
        module, _, attribute = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), attribute)), name


def is_file_name(value: object) -> bool:
    """Whether a setting is the name of a key or a certificate."""
    return isinstance(value, str) and value.endswith((".key", ".crt", ".pem"))


def test_every_file_that_a_kit_names_is_there(kits):
    for startup in kits.glob("*/startup"):
        for path in startup.glob("fed_*.json"):
            settings = json.loads(path.read_text())
            sides = [settings.get("client"), settings.get("admin"), *settings.get("servers", ())]
            files = {value for each in sides if each for value in each.values() if is_file_name(value)}
            assert len(files) == 3, path
            for file in files:
                assert (startup / file).is_file(), f"{path} names {file}"
