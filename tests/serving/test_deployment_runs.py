"""The service as it is deployed: as a bento, and shut in as the container and the unit shut it in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.service import DERMFED_SERVE, SUITES, problem, serving
from tests.serving.conftest import Places, draw_bundle, encode, paint, release

ROOT = Path(__file__).parents[2]

# Hides the distribution and the folder that it was installed from, as on a machine where dermfed never was.
NEVER_INSTALLED = """
import importlib.metadata, sys
sys.meta_path = [one for one in sys.meta_path if "__editable__" not in str(getattr(one, "__module__", one))]
sys.path = [one for one in sys.path if one != {root!r}]
found = importlib.metadata.Distribution.from_name.__func__
def from_name(cls, name):
    if name == "dermfed":
        raise importlib.metadata.PackageNotFoundError(name)
    return found(cls, name)
importlib.metadata.Distribution.from_name = classmethod(from_name)
"""

# A tree that can only be read, but for one folder; no memory that is both written and run; no new rights.
SHUT_IN = """
set -e
mount --bind "$STATE" "$STATE"
mount --options remount,bind,ro /
exec "$PYTHON" -c '
import ctypes, os, sys
libc = ctypes.CDLL(None)
print("no new rights:", libc.prctl(38, 1, 0, 0, 0), "memory:", libc.prctl(65, 1, 0, 0, 0), flush=True)
for place in (sys.argv[1], "/var"):
    try:
        open(place + "/written", "w")
    except OSError:
        continue
    sys.exit("the tree can be written to")
os.execv(sys.argv[2], sys.argv[2:])
' "$TREE" "$@"
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A registry with a release."""
    made = Places(tmp_path / "registry")
    with made.open() as registry:
        release(registry, draw_bundle())
    return made


def registry_of(places: Places) -> dict[str, str]:
    """The variables by which the service finds a registry."""
    return {"DERMFED_REGISTRY_URL": places.url, "DERMFED_STORE": str(places.store)}


@pytest.mark.long
def test_a_bento_is_built_from_a_checkout_and_answers(places, tmp_path):
    home, tools, hidden = (tmp_path / name for name in ("bentoml", "tools", "hidden"))
    for folder in (home, tools, hidden):
        folder.mkdir()
    # BentoML would install uv; it is asked for and, since the versions are said already, never called.
    uv = tools / "uv"
    uv.write_text("#!/bin/sh\nexit 1\n")
    uv.chmod(0o755)
    (hidden / "sitecustomize.py").write_text(NEVER_INSTALLED.format(root=str(ROOT)))
    bentoml = [sys.executable, "-m", "bentoml"]
    outside = {
        **{name: value for name, value in os.environ.items() if not name.startswith(SUITES)},
        **{"BENTOML_HOME": str(home), "BENTOML_DO_NOT_TRACK": "True", "HOME": str(tmp_path)},
        **{"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    }
    built = subprocess.run(
        [*bentoml, "build", "--output", "tag"],
        env=outside,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (tag,) = re.findall(r"diagnosis_service:\w+", built.stdout)
    content = home / "bentos" / tag.replace(":", "/")
    asked, installed = (
        {line for line in path.read_text().splitlines() if line and not line.startswith("#")}
        for path in (
            ROOT / "deployment" / "requirements.txt",
            content / "env" / "python" / "requirements.txt",
        )
    )
    assert installed == asked
    assert {path.name for path in (content / "src").iterdir()} == {
        *("dermfed", "registry", "serving", "pyproject.toml", "LICENSE", "bentofile.yaml"),
    }
    assert not list(content.rglob("*.pyc"))
    # What answers is the bento's own code: the version in its description is the one in its folder.
    project = content / "src" / "pyproject.toml"
    project.write_text(re.sub(r'(?m)^version = ".*"', 'version = "9.9.9"', project.read_text()))

    inside = {
        **registry_of(places),
        **{"BENTOML_HOME": str(home), "PYTHONPATH": str(hidden), "PYTHONSAFEPATH": "1"},
    }
    with serving([*bentoml, "serve", tag, "--host", "127.0.0.1"], inside, tmp_path / "home") as service:
        client = service.client
        assert client.get("/openapi.json").json()["info"]["version"] == "9.9.9"
        assert service.diagnose(encode(paint()), "image/jpeg").status_code == 200
        problem(service.diagnose(b"text", "image/jpeg"), 400, "not-an-image")
        # None of BentoML's own routes comes before ours, which are all that there is.
        for path in ("/healthz", "/docs.json", "/schema.json", "/static_content/index.css", "/nothing"):
            problem(client.get(path), 404, "not-found")
        assert client.get("/readyz").json()["status"] == "ready"
        assert "dermfed_requests_total" in client.get("/metrics").text


def may_shut_in() -> bool:
    """Whether this machine lets a process have a tree of its own."""
    if not shutil.which("unshare"):
        return False
    asked = ["unshare", "--user", "--map-root-user", "--mount", "mount", "--options", "remount,bind,ro", "/"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.long
def test_it_answers_from_a_tree_that_it_cannot_write_to(places, tmp_path):
    """As in the container and under the unit: `/var/lib/dermfed` and a temporary folder, and nothing else."""
    if not may_shut_in():
        pytest.skip("unshare may not make a mount namespace here")
    state = tmp_path / "state"
    temporary = state / "tmp"
    temporary.mkdir(parents=True)
    (tmp_path / "registry").rename(state / "dermfed")
    settings = {
        **registry_of(Places(state / "dermfed")),
        **{"HOME": str(temporary), "XDG_DATA_HOME": str(state), "XDG_CACHE_HOME": str(temporary)},
        **{"TMPDIR": str(temporary), "STATE": str(state), "TREE": str(ROOT), "PYTHON": sys.executable},
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    shut = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", SHUT_IN, "sh"]
    with serving([*shut, *DERMFED_SERVE], settings, tmp_path / "home") as service:
        answer = service.diagnose(encode(paint()), "image/jpeg")
        assert answer.status_code == 200, answer.text
        assert service.client.get("/metrics").status_code == 200
        log = (tmp_path / "home" / "log").read_text()
    assert "no new rights: 0 memory: 0" in log
    assert "Read-only file system" not in log
