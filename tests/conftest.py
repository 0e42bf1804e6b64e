import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import yaml
from httpx._transports import default
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about us.
for name, examples in {"dermfed": 25, "thorough": 150}.items():
    settings.register_profile(
        name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("dermfed")

TINY: dict[str, Any] = {
    "name": "tiny",
    "seed": 3,
    "data": {
        "adapter": "synthetic",
        "options": {"pictures": 80, "size": 32, "seed": 1},
        "label_map": "malignancy",
        "image_size": 16,
        "subgroups": {"scale": "fitzpatrick", "groups": {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]}},
        "clients": {"by": "subgroup"},
        "split": {"train": 0.4, "validation": 0.2, "calibration": 0.2, "test": 0.2},
    },
    "model": {"name": "resnet18", "weights": "none", "options": {"channels": [4, 8, 16, 32]}},
    "privacy": {"min_count": 2},
    "stages": [
        {
            "stage": "federate",
            "rounds": 2,
            "objective": {"name": "supervised", "batch_size": 16, "optimizer": {"name": "adam", "lr": 1e-3}},
            "aggregator": {"name": "fedavg"},
        }
    ],
}


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded for the tests stays until the end: the garbage collector need not look through it."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 100)
    gc.enable()
    return result


@pytest.fixture
def tiny() -> dict[str, Any]:
    """A job of two clients, two rounds and 80 drawn pictures, as plain data to change at will."""
    return deepcopy(TINY)


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Write a job into `tmp_path`; gives its path."""

    def write(job: dict[str, Any]) -> Path:
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(job, sort_keys=False))
        return path

    return write


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's data folder while tests run: nothing that they start leaves anything in his own."""
    folder = tmp_path_factory.mktemp("data-folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def authorities_once() -> Iterator[None]:
    """What httpx reads of the world's certificate authorities for each caller, it reads once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", cache(default.create_ssl_context))
        yield


@pytest.fixture(scope="session")
def pictures_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are drawn and decoded, once for all tests."""
    return tmp_path_factory.mktemp("cache")


class Traced(dict[str, Any]):
    """Graphs that any worker of this run has traced, which takes seconds: also in a folder of all of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self and (path := self.folder / key).exists():
            return onnx.load_from_string(path.read_bytes())
        return super().get(key, default)

    def __setitem__(self, key: str, traced: Any) -> None:
        super().__setitem__(key, traced)
        if not (path := self.folder / key).exists():
            written = path.with_suffix(f".{os.getpid()}")
            written.write_bytes(traced.SerializeToString())
            written.replace(path)


@pytest.fixture(scope="session", autouse=True)
def traced_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What one worker has traced the others need not."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTEST_XDIST_WORKER" in os.environ:
            folder = tmp_path_factory.getbasetemp().parent / "traced"
            patch.setattr("training.models.export._TRACED", Traced(folder))
        yield


@pytest.fixture
def train_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, pictures_cache: Path
) -> Callable[..., Ended]:
    """Call `dermfed-train` with these arguments, in this process and in `tmp_path`."""
    from training.run import main

    monkeypatch.setenv("DERMFED_CACHE", str(pictures_cache))
    monkeypatch.setenv("DERMFED_REGISTRY_URL", f"sqlite:///{tmp_path / 'registry' / 'registry.db'}")
    monkeypatch.setenv("DERMFED_STORE", str(tmp_path / "registry" / "store"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Ended:
        monkeypatch.setattr("sys.argv", ["dermfed-train", *map(str, arguments)])
        threads = torch.get_num_threads()
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            torch.set_num_threads(threads)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return call


@pytest.fixture
def quiet_environment(pictures_cache: Path) -> dict[str, str]:
    """The environment of a command that is run as a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DERMFED_", "PYTHON"))}
    return {**kept, "DERMFED_CACHE": str(pictures_cache), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Lays a distribution down as an installer would, where this process finds it; gives its folder.

    Its name, its modules with their text, and its entry points by group.
    """
    known = set(sys.modules)

    def lay(
        name: str, modules: dict[str, str], groups: dict[str, dict[str, str]], version: str = "1.0"
    ) -> Path:
        site = tmp_path / "sites" / name
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        points = [
            f"[{group}]\n" + "".join(f"{key} = {where}\n" for key, where in told.items())
            for group, told in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(points))
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(str(site))
        return site

    yield lay
    for module in set(sys.modules) - known:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[module]


@pytest.fixture
def without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs leave an empty report: drawing it takes longer than a tiny run."""
    monkeypatch.setattr("training.wiring.render_report", lambda data: "")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless browser, where this machine has one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser on this machine (looked for {', '.join(BROWSERS)})")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=as_root)
        yield browser
        browser.close()
