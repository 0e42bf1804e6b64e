"""Commands as a user types them, one trained and registered model, and services of it."""

import json
import os
import sys
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
import yaml
from _pytest.capture import SysCapture

from dermfed import commands
from tests.conftest import Ended
from tests.contract.service import DERMFED_SERVE, DIAGNOSES, Locked, serving, wait_for

JOB: dict[str, Any] = {
    "name": "contract",
    "seed": 3,
    "data": {
        "adapter": "synthetic",
        "options": {"pictures": 240, "size": 32, "seed": 1},
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
        },
        {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "selection": {"band": 0.05}},
        {"stage": "export"},
        {"stage": "calibrate", "coverage": 0.9},
        {"stage": "register", "model": "contract"},
    ],
}
REQUIRED = {"name": "required_subgroups", "malignant": 5}  # what gates for drawn pictures ask


@dataclass(frozen=True)
class Trained:
    """A finished run of `JOB`.

    Attributes:
        run: the folder of the run: `bundles/`, `summary.json`, `report.html`, ...
        environment: the variables that lead to the registry which its four releases are in.
    """

    run: Path
    environment: Mapping[str, str]


@pytest.fixture
def job():
    """The job of `trained` as plain data, to change at will."""
    return deepcopy(JOB)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder for caches that all tests of a process share."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def command(home):
    """`command("registry", "list", environment={...}, folder=...)` calls `dermfed-registry list`.

    In this process, in `folder` (a fresh one without), with no `DERMFED_` variable but those given.
    """

    def call(
        name: str,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Ended:
        with pytest.MonkeyPatch.context() as patch:
            for variable in [each for each in os.environ if each.startswith("DERMFED_")]:
                patch.delenv(variable)
            given = {"COLUMNS": "200", "DERMFED_CACHE": str(home / "cache"), **(environment or {})}
            for variable, value in given.items():
                patch.setenv(variable, value)
            patch.chdir(folder or mkdtemp(dir=home))
            patch.setattr(sys, "argv", [f"dermfed-{name}", *map(str, arguments)])
            out, err = SysCapture(1), SysCapture(2)
            threads = torch.get_num_threads()
            out.start()
            err.start()
            try:
                getattr(commands, name)()
                code = 0
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            finally:
                torch.set_num_threads(threads)
                printed = out.snap(), err.snap()
                out.done()
                err.done()
        return Ended(code, *printed)

    return call


@pytest.fixture(scope="session")
def trained(command, tmp_path_factory):
    """`JOB`, trained, personalized, calibrated and registered by the first process of a run of tests."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / "trained"
    environment = {
        "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
        "DERMFED_STORE": str(folder / "store"),
    }
    with (base / "trained.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            (folder / "job.yaml").write_text(yaml.safe_dump(JOB, sort_keys=False))
            ended = command("train", "job.yaml", "--out", "run", environment=environment, folder=folder)
            assert ended.code == 0, ended.out + ended.err
    return Trained(folder / "run", environment)


@pytest.fixture(scope="session")
def pictures(command, tmp_path_factory):
    """Forty drawn pictures that no model was trained on, as PNG."""
    folder = tmp_path_factory.mktemp("pictures")
    ended = command("data", "synth", "--out", folder, "--pictures", 40, "--seed", 7)
    assert ended.code == 0, ended.err
    return sorted((folder / "images").iterdir())


@pytest.fixture(scope="session")
def registered(command, trained):
    """Add the releases of `trained` to a new registry in a folder; returns the variables that lead to it."""

    def add(folder: Path) -> dict[str, str]:
        environment = {
            "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
            "DERMFED_STORE": str(folder / "store"),
        }
        bundles = [trained.run / "bundles" / name for name in ("global", "light", "dark")]
        ended = command("registry", "add", *bundles, environment=environment)
        assert ended.code == 0, ended.err
        return environment

    return add


@pytest.fixture(scope="session")
def served(command, registered, tmp_path_factory):
    """Variables of a service of `trained`: promoted to `demonstration`, by gates for drawn pictures."""
    folder = tmp_path_factory.mktemp("served")
    environment = registered(folder)
    gates = {"gates": [{"name": "parity", "limit": 0.001}, {**REQUIRED, "subgroups": ["light", "dark"]}]}
    (folder / "gates.yaml").write_text(yaml.safe_dump(gates))
    for arguments in (
        ("gates", "set", folder / "gates.yaml", "--model", "contract", "--reason", "drawn pictures"),
        ("promote", "contract", 1, 2, 3, "--to", "demonstration", "--reason", "to be looked at"),
    ):
        ended = command("registry", *arguments, environment=environment)
        assert ended.code == 0, ended.out + ended.err
    return {
        **environment,
        "DERMFED_SERVE_ALIAS": "demonstration",
        "DERMFED_SERVE_MAX_BYTES": "200000",
        "DERMFED_SERVE_MAX_PIXELS": "200000",
    }


@pytest.fixture(scope="session")
def service(served, tmp_path_factory):
    """One `dermfed-serve` for all tests of a process: without keys, for this machine."""
    with serving(DERMFED_SERVE, served, tmp_path_factory.mktemp("service")) as started:
        wait_for(lambda: started.client.get("/readyz").status_code == 200)
        yield started


@pytest.fixture(scope="session")
def locked(command, registered, pictures, tmp_path_factory):
    """One `dermfed-serve` with API keys, which keeps outcomes; its release is promoted while it runs."""
    folder = tmp_path_factory.mktemp("locked")
    environment = registered(folder)

    def registry(*arguments: object) -> str:
        ended = command("registry", *arguments, environment=environment)
        assert ended.code == 0, ended.out + ended.err
        return ended.out

    options = {"all": (), "read": ("--scope", "read"), "rare": ("--per-minute", 1), "gone": ()}
    made = {
        name: json.loads(registry("keys", "add", name, *more, "--json")) for name, more in options.items()
    }
    registry("keys", "revoke", made["gone"]["id"])
    keys = {name: key["secret"] for name, key in made.items()}
    kept = {"DERMFED_OUTCOMES_URL": f"sqlite:///{folder / 'outcomes.db'}"}
    with serving(DERMFED_SERVE, environment | kept, folder / "home") as started:
        headers = {"Authorization": f"Bearer {keys['all']}"}
        wait_for(lambda: started.client.get("/v1/models", headers=headers).status_code != 401)
        before = {
            "ready": started.client.get("/readyz"),
            "diagnosis": started.client.post(
                DIAGNOSES,
                content=pictures[0].read_bytes(),
                headers={**headers, "Content-Type": "image/png"},
            ),
        }
        promote = ("promote", "contract", 1, 2, "--to", "production")
        registry(*promote, "--override-gates", "--reason", "drawn pictures")
        wait_for(lambda: started.client.get("/readyz").status_code == 200, 30)
        yield Locked(started, keys, before)
