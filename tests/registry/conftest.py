"""Bundles, registries and processes to test the registry with."""

import multiprocessing
import os
import shutil
import sqlite3
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from registry.bundle.folder import Bundle, bundle_digest, write_bundle
from registry.bundle.labels import Label, Subgroup
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule
from registry.registry import Registry
from tests.measured import evaluation_of
from tests.postgres_server import shared_server
from tests.represented import patients_of

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from registry.signing_keys import KeySignatory

MODEL = "skin-lesion"
CODES = ("MEL", "NV", "AK")
SIZE = 8


def draw_graph(size: int = SIZE, classes: int = 3, name: str = "mean colour") -> bytes:
    """A graph that scores a picture by its mean colour; each `name` gives other bytes."""
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels"], ["embedding"], axes=[1, 2], keepdims=0),
        helper.make_node("MatMul", ["embedding", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    weights = numpy_helper.from_array(np.ones((3, classes), np.float32), "weights")
    widths = {"probabilities": classes, "logits": classes, "embedding": 3}
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", size, size, 3])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
            for name, width in widths.items()
        ],
        [weights],
    )
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def figures(**accuracies: float | tuple[float, float, float]) -> dict[str, Any]:
    """Test figures on 200 pictures of each subgroup: an accuracy, or with the two ends of its interval."""
    found: dict[str, Any] = {}
    for name, given in accuracies.items():
        value, *ends = given if isinstance(given, tuple) else (given,)
        found[name] = {"n": 200, "accuracy": value, "answered": 1.0, "reported": 1.0, "reported_risk": 0.0}
        if ends:
            found[name]["intervals"] = {"accuracy": ends}
    return {"by_subgroup": found}


def tones_of(name: str, *values: str, scale: str = "fitzpatrick") -> Subgroup:
    """A subgroup of these skin tones."""
    return Subgroup(name=name, scale=scale, values=values)


GRAPH = draw_graph()
UNTOLD = {"n": 50, "accuracy": 0.8, "answered": 1.0, "reported": 1.0, "reported_risk": 0.0}


def draw_manifest(
    subgroup: Subgroup | None = None,
    metrics: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    codes: tuple[str, ...] = CODES,
    graph: bytes = GRAPH,
    **parts: Any,
) -> BundleManifest:
    """A manifest; each `seed` makes another one."""
    given = {
        "model": MODEL,
        "file": ModelFile.of(graph),
        "labels": tuple(Label(code=code, name=code.title(), malignancy="benign") for code in codes),
        "picture": PictureRule(size=SIZE),
        "subgroup": subgroup or Subgroup(),
        "patients_by_tone": patients_of(subgroup or Subgroup()),
        "evaluation": evaluation_of(UNTOLD if metrics is None else metrics),
        "lineage": Lineage(job="sha256:" + "0" * 64, recipe="fedauto", seed=seed, code_version="0.1.0"),
    }
    return BundleManifest(**{**given, **parts})


def draw_bundle(*arguments: Any, graph: bytes = GRAPH, **parts: Any) -> Bundle:
    """A bundle; arguments as for `draw_manifest`."""
    manifest = draw_manifest(*arguments, graph=graph, **parts)
    return Bundle(manifest, graph, bundle_digest(manifest))


@pytest.fixture(scope="session")
def bundle() -> Callable[..., Bundle]:
    """Draws a bundle: of a subgroup, with test figures; keywords replace parts of its manifest."""
    return draw_bundle


@pytest.fixture(scope="session")
def graph() -> Callable[..., bytes]:
    """Draws a graph for pictures of `size` and so many `classes`."""
    return draw_graph


@pytest.fixture(scope="session")
def tested() -> Callable[..., dict[str, Any]]:
    """Test figures by subgroup, as a manifest holds them."""
    return figures


@pytest.fixture(scope="session")
def tones() -> Callable[..., Subgroup]:
    """A subgroup of the skin tones named."""
    return tones_of


@pytest.fixture(scope="session")
def light() -> Subgroup:
    """The subgroup of the tones 1 to 3."""
    return tones_of("light", "1", "2", "3")


@pytest.fixture(scope="session")
def dark() -> Subgroup:
    """The subgroup of the tones 4 to 6."""
    return tones_of("dark", "4", "5", "6")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs whatever uses a registry on SQLite, and on PostgreSQL in long runs or where it is marked so."""
    if "places" in metafunc.fixturenames:
        marked = {mark.name for mark in metafunc.definition.iter_markers()}
        other = pytest.param("postgresql", marks=[] if "both_databases" in marked else [pytest.mark.long])
        metafunc.parametrize("kind", ["sqlite"] if "sqlite" in marked else ["sqlite", other])


@dataclass(frozen=True)
class Places:
    """Where a registry under test keeps things."""

    url: str
    store: Path

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a SQLite file."""
        return self.url.startswith("sqlite:")

    @property
    def database(self) -> Path:
        """The database's file."""
        assert self.is_sqlite, "a server has no file: mark this test with pytest.mark.sqlite"
        return Path(self.url.removeprefix("sqlite:///"))

    def open(self, **options: Any) -> Registry:
        """The registry, opened."""
        return Registry.open(self.url, str(self.store), **{"actor": "tester", **options})

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database answers, asked behind the registry's back."""
        with closing(self._connect()) as connection:
            return [tuple(row) for row in connection.execute(query).fetchall()]

    def tamper(self, *statements: str) -> None:
        """Changes the database behind the registry's back, as somebody who may do anything there can."""
        with closing(self._connect()) as connection, connection:
            if not self.is_sqlite:
                connection.execute("SET session_replication_role = replica")  # no reference
            for statement in statements:
                connection.execute(statement)

    def content(self) -> dict[str, list[str]]:
        """Every row of every table."""
        catalogue = (
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            if self.is_sqlite
            else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        )
        tables = sorted(name for (name,) in self.rows(catalogue))
        return {name: sorted(map(repr, self.rows(f"SELECT * FROM {name}"))) for name in tables}

    def _connect(self) -> Any:
        if self.is_sqlite:
            self.database.parent.mkdir(parents=True, exist_ok=True)
            return sqlite3.connect(self.database)
        import psycopg

        return psycopg.connect(self.url)

    def object(self, digest: str) -> Path:
        """Where an object lies."""
        name = digest.removeprefix("sha256:")
        return self.store / "objects" / name[:2] / name

    def spoil(self, digest: str) -> None:
        """Changes one bit of an object, as a bad disk does."""
        path = self.object(digest)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.chmod(0o644)
        path.write_bytes(content)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Does a statement on a PostgreSQL server, outside any transaction; gives the server's address."""
    with shared_server(tmp_path_factory) as url:
        import psycopg

        def execute(statement: str) -> str:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(statement)
            return url

        yield execute


@pytest.fixture(scope="session")
def migrated(postgres: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a PostgreSQL database with the tables of a registry and nothing else, to copy."""
    with _database(postgres, "template0") as (name, url):
        Registry.open(url, str(tmp_path_factory.mktemp("migrated"))).close()
        yield name


@pytest.fixture
def empty_database(postgres: Callable[[str], str]) -> Iterator[str]:
    """The address of a PostgreSQL database with nothing in it."""
    with _database(postgres, "template0") as (_, url):
        yield url


@pytest.fixture
def migrated_database(postgres: Callable[[str], str], migrated: str) -> Iterator[str]:
    """The address of a PostgreSQL database with the tables of a registry."""
    with _database(postgres, migrated) as (_, url):
        yield url


@contextmanager
def _database(postgres: Callable[[str], str], template: str) -> Iterator[tuple[str, str]]:
    """The name and the address of a new database on the server."""
    name = f"dermfed_{uuid.uuid4().hex[:16]}"
    url = postgres(f"CREATE DATABASE {name} TEMPLATE {template}")
    path, mark, query = url.partition("?")
    yield name, f"{path.rpartition('/')[0]}/{name}{mark}{query}"
    postgres(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def places(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> Places:
    """Places of a registry that is not there yet, or, for `registry`, has no more than its tables."""
    store = tmp_path / "data" / "store"
    if kind == "sqlite":
        return Places(f"sqlite:///{tmp_path / 'data' / 'registry.db'}", store)
    database = "migrated_database" if "registry" in request.fixturenames else "empty_database"
    return Places(request.getfixturevalue(database), store)


@pytest.fixture(scope="session")
def new_registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a new SQLite registry, to copy."""
    data = tmp_path_factory.mktemp("new") / "data"
    Registry.open(f"sqlite:///{data / 'registry.db'}", str(data / "store")).close()
    return data


@pytest.fixture
def registry(places: Places, new_registry: Path) -> Iterator[Registry]:
    """A new registry."""
    if places.is_sqlite and not places.database.exists():
        shutil.copytree(new_registry, places.store.parent)
    with places.open() as opened:
        yield opened


@pytest.fixture(scope="session")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[..., Any]], Path]:
    """Where the data of a SQLite registry that a function fills are, or are to be."""
    places: dict[Callable[..., Any], Path] = {}
    return lambda fill: places.setdefault(fill, tmp_path_factory.mktemp("filled") / "data")


@pytest.fixture
def filled(places: Places, _filled: Callable[..., Path]) -> Iterator[Callable[..., Registry]]:
    """A new registry that a function has filled: once in a run, later ones in SQLite are copies."""
    opened: list[Registry] = []

    def of(fill: Callable[[Registry], None]) -> Registry:
        data, here = _filled(fill), places.store.parent
        if there := places.is_sqlite and data.exists():
            shutil.copytree(data, here)
        opened.append(places.open())
        if not there:
            fill(opened[0])
            if places.is_sqlite:
                shutil.copytree(here, data)
        return opened[0]

    yield of
    for one in opened:
        one.close()


@pytest.fixture
def folders(tmp_path: Path) -> Callable[..., list[Path]]:
    """Writes bundles to folders."""

    def write(*bundles: Bundle) -> list[Path]:
        paths = []
        for bundle in bundles:
            path = tmp_path / "bundles" / f"{bundle.manifest.subgroup.name}-{bundle.digest[7:15]}"
            write_bundle(path, bundle.manifest, bundle.model)
            paths.append(path)
        return paths

    return write


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], places: Places
) -> Callable[..., Ended]:
    """Calls `dermfed-registry` with these arguments on `places`, in this process."""
    from registry.cli.app import main

    monkeypatch.setenv("DERMFED_REGISTRY_URL", places.url)
    monkeypatch.setenv("DERMFED_STORE", str(places.store))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> Ended:
        monkeypatch.setattr("sys.argv", ["dermfed-registry", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return call


FORKS = multiprocessing.get_context("forkserver")
"""Processes that are forked off one which has imported what takes longest."""
FORKS.set_forkserver_preload(["tests.registry.conftest", "registry.cli.app", "alembic.autogenerate"])


def _run(program: str, arguments: list[str], *printed: "Connection") -> None:
    """What such a process does: `printed` are its standard output and standard error."""
    for number, pipe in enumerate(printed, start=1):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.argv = ["-c", *arguments]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})


class Forked:
    """A process of `FORKS`, in the words of `subprocess.Popen`."""

    def __init__(self, program: str, *arguments: object) -> None:
        """Start it."""
        pipes = [FORKS.Pipe(duplex=False) for _ in range(2)]
        own = (program, [str(one) for one in arguments], *(written for _, written in pipes))
        self.process = FORKS.Process(target=_run, args=own)
        self.process.start()
        for _, written in pipes:
            written.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(read.fileno())) for read, _ in pipes)
        self.kill = self.process.kill

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; gives what it printed, which is little."""
        self.process.join(timeout)
        assert self.returncode is not None, "it has not ended"
        return self.stdout.read(), self.stderr.read()

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self.process.exitcode

    returncode = property(poll)


@pytest.fixture
def start() -> Iterator[Callable[..., Forked]]:
    """Starts a Python program of the tests as a process of its own, given arguments; ends it after."""
    started: list[Forked] = []

    def launch(program: str, *arguments: object) -> Forked:
        started.append(Forked(program, *arguments))
        return started[-1]

    yield launch
    for one in started:
        one.kill()
        one.process.join()
        one.stdout.close()
        one.stderr.close()


@pytest.fixture
def key(tmp_path: Path) -> Callable[[str], "KeySignatory"]:
    """The key of somebody of this name, made when it is first asked for; its files lie in `tmp_path`."""
    pytest.importorskip("cryptography", reason="signing needs the extra sign")
    from registry.signing_keys import KeySignatory, write_key_pair

    made: dict[str, KeySignatory] = {}

    def of(name: str) -> KeySignatory:
        if name not in made:
            write_key_pair(tmp_path / f"{name}.key", None)
            made[name] = KeySignatory.read(tmp_path / f"{name}.key", None)
        return made[name]

    return of


@pytest.fixture
def person(
    registry: Registry, key: Callable[[str], "KeySignatory"], tmp_path: Path
) -> Callable[..., Registry]:
    """The registry as a person uses it, whom it knows from then on; the first, `olga`, is an operator."""

    def of(name: str, *roles: str) -> Registry:
        known = {one.name for one in registry.people()}
        if not known and name != "olga":
            of("olga")
        if name not in known:
            signing = key(name)
            vouching = registry.signed_by(key("olga")) if registry.people() else registry
            vouching.add_person(name, tmp_path / f"{name}.pub", roles=roles or ("operator", "uploader"))
            return registry.signed_by(signing)
        return registry.signed_by(key(name))

    return of
