import os
import socket

import pytest

from registry.database.connection import writing
from registry.outcomes.store import OutcomeStore
from registry.registry import Registry
from serving.cli import main

OURS = ("DERMFED_", "BENTOML_", "PROMETHEUS_", "XDG_")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Calls `dermfed-serve`; returns its exit code, its errors, and what would have been served."""
    served = []
    monkeypatch.setattr("serving.server.serve", lambda *arguments: served.append(arguments))
    before = dict(os.environ)
    kept = {name: value for name, value in before.items() if not name.startswith(OURS)}
    replace_environment({**kept, "HOME": str(tmp_path), "COLUMNS": "200", "NO_COLOR": "1"})

    def call(*arguments, **environment):
        os.environ.update(environment)
        monkeypatch.setattr("sys.argv", ["dermfed-serve", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err, served[-1] if served else None

    yield call
    replace_environment(before)


def replace_environment(environment):
    os.environ.clear()
    os.environ.update(environment)


def outcomes_of_a_newer_version(folder):
    url = f"sqlite:///{folder / 'outcomes.db'}"
    with OutcomeStore.open(url) as store, writing(store.engine) as connection:
        connection.exec_driver_sql("UPDATE outcomes_schema SET number = 99")
    return url


def garbage(folder):
    (folder / "garbage.db").write_bytes(bytes(range(256)) * 20)
    return f"sqlite:///{folder / 'garbage.db'}"


# Arguments, variables and what the message names; a function is called with the folder of the test.
REFUSED = {
    "a host of no machine": (["--host", "nowhere"], {}, "'nowhere'"),
    "a host that is no address": (["--host", "300.1.1.1"], {}, "'300.1.1.1'"),
    "port 0": (["--port", "0"], {}, "--port"),
    "a port too large": (["--port", "70000"], {}, "--port"),
    "no workers": (["--workers", "0"], {}, "--workers"),
    "an unknown option": (["--nothing"], {}, "--nothing"),
    "a wrong setting": ([], {"DERMFED_SERVE_MAX_BYTES": "many"}, "DERMFED_SERVE_MAX_BYTES"),
    "a wrong number of workers": ([], {"DERMFED_SERVE_WORKERS": "many"}, "DERMFED_SERVE_WORKERS"),
    "a device that is not here": ([], {"DERMFED_SERVE_PROVIDERS": "tensorrt"}, "DeviceUnusable"),
    "a registry that is garbage": ([], {"DERMFED_REGISTRY_URL": garbage}, "garbage.db"),
    "a registry of no driver": (["--url", "postgresql://somewhere"], {}, "postgresql"),
    "outcomes of a newer version": ([], {"DERMFED_OUTCOMES_URL": outcomes_of_a_newer_version}, "outcomes"),
    "outcomes of no driver": ([], {"DERMFED_OUTCOMES_URL": "mysql://nowhere"}, "mysql"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use_ends_with_2_and_serves_nothing(command, tmp_path, name):
    arguments, environment, said = REFUSED[name]
    given = {key: value(tmp_path) if callable(value) else value for key, value in environment.items()}
    code, err, served = command(*arguments, **given)
    assert (code, served) == (2, None)
    assert said in err
    assert "Traceback" not in err


def test_a_port_that_is_taken_ends_with_2_and_says_what_to_do(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, err, served = command("--port", str(taken.getsockname()[1]))
    assert (code, served) == (2, None)
    assert "--port" in err


def test_another_registry_than_the_one_of_the_settings_ends_with_2(command, tmp_path):
    database, store = tmp_path / "registry.db", str(tmp_path / "store")
    arguments = ("--url", f"sqlite:///{database}", "--store", store)
    code, err, served = command(*arguments, DERMFED_SERVE_REGISTRY_ID="0" * 32)
    assert (code, served) == (2, None)
    assert "is not there" in err
    assert not database.exists()
    Registry.open(f"sqlite:///{database}", store).close()
    code, err, served = command(*arguments, DERMFED_SERVE_REGISTRY_ID="0" * 32)
    assert (code, served) == (2, None)
    assert f"was the registry {'0' * 32}" in err


def test_it_starts_where_the_database_of_outcomes_is_down(command, tmp_path):
    (tmp_path / "disk").write_text("not mounted yet")
    url = f"sqlite:///{tmp_path / 'disk' / 'outcomes.db'}"
    code, err, served = command(DERMFED_OUTCOMES_URL=url)
    assert code == 0
    assert served is not None
    assert "answers wait to be kept for their outcomes" in err


def test_it_serves_as_the_arguments_say(command, tmp_path):
    url, store = f"sqlite:///{tmp_path / 'registry.db'}", str(tmp_path / "store")
    arguments = ["--port", "8123", "--workers", "3", "--url", url, "--store", store, "--host", "::1"]
    code, _, served = command(*arguments)
    assert (code, served) == (0, ("::1", 8123, 3, 10.0, 1.0))
    with Registry.open(url, store) as registry:
        identity = registry.identity()
    given = {name: os.environ[name] for name in os.environ if name.startswith(("DERMFED_", "BENTOML_"))}
    assert given == {
        "DERMFED_REGISTRY_URL": url,
        "DERMFED_STORE": store,
        "DERMFED_SERVE_WORKERS": "3",
        "DERMFED_SERVE_REGISTRY_ID": identity,
    }
    counts = tmp_path / ".cache" / "dermfed" / "service" / "__1-8123" / "counts"
    assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(counts)
