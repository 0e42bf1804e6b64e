"""Registry, service and client where torch is not installed: with what the package says they need."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from PIL import Image

from registry.bundle.folder import write_bundle
from registry.bundle.labels import Subgroup

ROOT = Path(__file__).parents[2]
PACKAGED = ("clients", "dermfed", "personalization", "registry", "serving", "training")


def needed(name: str, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """Every distribution that `name[extras]` asks for, and what those ask for."""
    found: dict[str, frozenset[str]] = {}
    waiting = [(canonicalize_name(name), extras)]
    while waiting:
        name, extras = waiting.pop()
        if name in found and extras <= found[name]:
            continue
        found[name] = found.get(name, frozenset()) | extras
        for line in distribution(name).requires or ():
            requirement = Requirement(line)
            wanted = [{"extra": extra} for extra in ("", *found[name])]
            if requirement.marker is None or any(requirement.marker.evaluate(each) for each in wanted):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return found


def link(name: str, site: Path) -> None:
    """Put an installed distribution into another environment, without copying or downloading it."""
    there = distribution(name)
    for file in there.files or ():
        target = Path(str(there.locate_file(file)))
        if ".." in file.parts or "__pycache__" in file.parts or not target.exists():
            continue
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        if not (site / file).exists():
            (site / file).symlink_to(target)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds `dermfed[serve]`, built as a wheel would be, and no torch."""
    folder = tmp_path_factory.mktemp("without-torch")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    site = next((folder / "venv" / "lib").iterdir()) / "site-packages"
    for name in needed("dermfed", frozenset({"serve"})):
        if name != "dermfed":
            link(name, site)
    source = folder / "source"
    for name in PACKAGED:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, *offline, "--target", str(folder / "built"), str(source)], check=True)
    for entry in (folder / "built").iterdir():
        if entry.name != "bin":
            shutil.move(entry, site / entry.name)
    return folder / "venv" / "bin" / "python"


@pytest.fixture
def call(python: Path, tmp_path: Path):
    """Call one of our commands there."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    environment = {
        **kept,
        "HOME": str(tmp_path / "home"),
        "DERMFED_REGISTRY_URL": f"sqlite:///{tmp_path / 'registry.db'}",
        "DERMFED_STORE": str(tmp_path / "store"),
    }

    def start(command: str, *arguments: str) -> subprocess.Popen[str]:
        script = f"import sys; from {command} import main; sys.exit(main())"
        return subprocess.Popen(
            [str(python), "-c", script, *arguments],
            env=environment,
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return start


def done(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def service(call, tmp_path: Path, bundle) -> Iterator[str]:
    """The address of a service there, over a registry that was filled there."""
    row = {"n": 50, "accuracy": 0.8, "answered": 1.0, "reported": 1.0, "reported_risk": 0.0}
    metrics = {"by_subgroup": dict.fromkeys(("dark", "light"), row)}
    dark = Subgroup(name="dark", scale="fitzpatrick", values=("5", "6"))
    for name, made in {"global": bundle(None, metrics), "dark": bundle(dark, metrics)}.items():
        write_bundle(tmp_path / "bundles" / name, made.manifest, made.model)
    for arguments in (
        ("add", "bundles/global", "bundles/dark"),
        ("promote", "skin-lesion", "1", "2", "--to", "production"),
    ):
        done(call("registry.cli.app", *arguments))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = call("serving.cli", "--port", str(port))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_there_is_no_torch_there(python):
    program = "from importlib.util import find_spec; print(*map(find_spec, ('torch', 'timm', 'torchvision')))"
    assert subprocess.check_output([python, "-c", program], text=True) == "None None None\n"


def test_a_picture_is_diagnosed_by_a_promoted_model(service, call, tmp_path):
    Image.new("RGB", (32, 32), (180, 120, 90)).save(tmp_path / "lesion.png")
    asked = time.monotonic()
    out = done(
        call("clients.diagnose", "lesion.png", "--url", service, "--wait", "60", "--skin-tone", "V", "--json")
    )
    answer = json.loads(out)
    assert time.monotonic() - asked < 120
    assert (answer["model"]["subgroup"], answer["model"]["version"]) == ("dark", 2)
    assert answer["model"]["route"] == "declared"
    assert len(answer["findings"]) == 3
