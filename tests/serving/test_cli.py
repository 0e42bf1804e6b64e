import os
import re
import socket

import pytest

from registry.database.connection import writing
from registry.outcomes.store import OutcomeStore
from registry.registry import Registry
from serving.cli import main

OURS = ("DERMFED_", "BENTOML_", "PROMETHEUS_", "XDG_")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Calls `dermfed-serve`; gives its exit code, what it printed, and what it would have become."""
    became = []

    monkeypatch.setattr("serving.server.serve", lambda *arguments: became.append(arguments))
    before = dict(os.environ)
    kept = {name: value for name, value in before.items() if not name.startswith(OURS)}
    replace_environment({**kept, "HOME": str(tmp_path), "COLUMNS": "200", "NO_COLOR": "1"})

    def call(*arguments, **environment):
        os.environ.update(environment)
        monkeypatch.setattr("sys.argv", ["dermfed-serve", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err, became[-1] if became else None

    yield call
    replace_environment(before)


def replace_environment(environment):
    os.environ.clear()
    os.environ.update(environment)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "nowhere"], "'nowhere'"),
        (["--host", "300.1.1.1"], "'300.1.1.1'"),
        (["--port", "0"], "--port"),
        (["--port", "70000"], "--port"),
        (["--workers", "0"], "--workers"),
        (["--nothing"], "--nothing"),
    ],
)
def test_wrong_use_ends_with_2_and_starts_nothing(command, arguments, said):
    code, _, err, became = command(*arguments)
    assert (code, became) == (2, None)
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["MAX_BYTES", "THREADS", "WORKERS"])
def test_a_wrong_variable_ends_with_2_and_is_named(command, name):
    code, _, err, became = command(**{f"DERMFED_SERVE_{name}": "many"})
    assert (code, became) == (2, None)
    assert re.search(rf"DERMFED_SERVE_{name}\b", err)


def test_a_device_that_does_not_run_here_ends_with_2_and_says_what_to_do(command):
    code, _, err, became = command(DERMFED_SERVE_PROVIDERS="tensorrt")
    assert (code, became) == (2, None)
    assert "DeviceUnusable: DERMFED_SERVE_PROVIDERS is 'tensorrt'" in err


def test_it_starts_where_the_database_of_outcomes_is_down(command, tmp_path):
    (tmp_path / "disk").write_text("not mounted yet")
    url = f"sqlite:///{tmp_path / 'disk' / 'outcomes.db'}"
    code, _, err, became = command(DERMFED_OUTCOMES_URL=url)
    assert code == 0
    assert became is not None
    assert "answers wait to be kept for their outcomes" in err


@pytest.mark.parametrize("newer", [True, False])
def test_it_does_not_start_where_outcomes_never_can_be_kept(command, tmp_path, newer):
    url = f"sqlite:///{tmp_path / 'outcomes.db'}" if newer else "mysql://nowhere"
    if newer:
        with OutcomeStore.open(url) as store, writing(store.engine) as connection:
            connection.exec_driver_sql("UPDATE outcomes_schema SET number = 99")
    code, _, _, became = command(DERMFED_OUTCOMES_URL=url)
    assert (code, became) == (2, None)


def test_it_serves_what_it_is_asked_to(command, tmp_path):
    url, store = f"sqlite:///{tmp_path / 'registry.db'}", str(tmp_path / "store")
    arguments = [
        "--port",
        "8123",
        "--workers",
        "3",
        "--url",
        url,
        "--store",
        store,
        "--host",
        "::1",
    ]
    code, _, _, served = command(*arguments)
    assert (code, served) == (0, ("::1", 8123, 3, 10.0, 1.0))
    with Registry.open(url, store) as registry:
        identity = registry.identity()
    said = {name: os.environ[name] for name in os.environ if name.startswith(("DERMFED_", "BENTOML_"))}
    assert said == {
        "DERMFED_REGISTRY_URL": url,
        "DERMFED_STORE": store,
        "DERMFED_SERVE_WORKERS": "3",
        "DERMFED_SERVE_REGISTRY_ID": identity,
    }
    assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(
        tmp_path / ".cache" / "dermfed" / "service" / "__1-8123" / "counts"
    )


def test_a_registry_that_cannot_be_opened_ends_with_2(command, tmp_path):
    database = tmp_path / "garbage.db"
    database.write_bytes(bytes(range(256)) * 20)
    code, _, err, became = command("--url", f"sqlite:///{database}")
    assert (code, became) == (2, None)
    assert str(database) in err
    code, _, err, became = command("--url", "postgresql://somewhere")
    assert (code, became) == (2, None)
    assert "postgresql" in err


def test_another_registry_than_the_one_that_is_said_ends_with_2(command, tmp_path):
    database, store = tmp_path / "registry.db", str(tmp_path / "store")
    other = {"DERMFED_SERVE_REGISTRY_ID": "0" * 32}
    arguments = ("--url", f"sqlite:///{database}", "--store", store)
    code, _, err, became = command(*arguments, **other)
    assert (code, became) == (2, None)
    assert "is not there" in err
    assert not database.exists()
    Registry.open(f"sqlite:///{database}", store).close()
    code, _, err, became = command(*arguments, **other)
    assert (code, became) == (2, None)
    assert f"was the registry {'0' * 32}" in err


def test_a_port_that_is_taken_ends_with_2_and_says_what_to_do(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err, became = command("--port", str(taken.getsockname()[1]))
    assert (code, became) == (2, None)
    assert "cannot be listened on" in err
    assert "--port" in err
