"""Bundles, registries and processes to test the registry with."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from registry.bundle.folder import Bundle, bundle_digest, write_bundle
from registry.bundle.labels import Label
from registry.bundle.picture import PictureRule
from registry.bundle.schema import BundleManifest, Lineage, ModelFile, Subgroup
from registry.registry import Registry

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
    """Test figures on 50 pictures of each subgroup: an accuracy, or with the two ends of its interval."""
    found: dict[str, Any] = {}
    for name, given in accuracies.items():
        value, *ends = given if isinstance(given, tuple) else (given,)
        found[name] = {"n": 50, "accuracy": value}
        if ends:
            found[name]["intervals"] = {"accuracy": ends}
    return {"by_subgroup": found}


def tones_of(name: str, *values: str, scale: str = "fitzpatrick") -> Subgroup:
    """A subgroup of these skin tones."""
    return Subgroup(name=name, scale=scale, values=values)


GRAPH = draw_graph()


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
        "labels": tuple(Label(code=code, name=code.title()) for code in codes),
        "picture": PictureRule(size=SIZE),
        "subgroup": subgroup or Subgroup(),
        "metrics": {"n": 50, "accuracy": 0.8} if metrics is None else metrics,
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


@dataclass(frozen=True)
class Places:
    """Where a registry under test keeps things."""

    database: Path
    store: Path

    @property
    def url(self) -> str:
        """The database's address."""
        return f"sqlite:///{self.database}"

    def open(self, **options: Any) -> Registry:
        """The registry, opened."""
        return Registry.open(self.url, str(self.store), **{"actor": "tester", **options})

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


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Places of a registry that is not there yet."""
    return Places(tmp_path / "data" / "registry.db", tmp_path / "data" / "store")


@pytest.fixture
def registry(places: Places) -> Iterator[Registry]:
    """A new registry."""
    with places.open() as opened:
        yield opened


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
    from registry.cli import main

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


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python program of the tests as a process of its own, given arguments; ends it after."""
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def launch(program: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill()
        process.communicate()
