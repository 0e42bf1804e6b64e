"""A registry with a release in it, the service over it on a real port, and pictures to send."""

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import ICD10, Coding, Label, Subgroup
from registry.bundle.manifest import BundleManifest, Conformal, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule
from registry.records import Release
from registry.registry import Registry
from serving.decoding.template import Template
from serving.http.app import build_app
from serving.settings import ServeSettings
from tests.measured import evaluation_of
from tests.represented import patients_of
from tests.thresholds import at_log_odds, concluding

MODEL = "skin-lesion"
SIZE = 8
LABELS = (
    Label(
        code="MEL",
        name="Melanoma",
        malignancy="malignant",
        codings=(Coding(system=ICD10, code="C43.9", display="Melanoma"),),
    ),
    Label(code="NV", name="Melanocytic naevus", malignancy="benign"),
    Label(code="AK", name="Actinic keratosis", malignancy="premalignant"),
)
LIGHT = Subgroup(name="light", scale="fitzpatrick", values=("1", "2"))
DARK = Subgroup(name="dark", scale="fitzpatrick", values=("V", "VI"))

# One row for each colour, one column for each label: every version sees another thing in a colour.
WEIGHTS = {
    "global": np.array([[0.02, 0, 0], [0, 0.02, 0], [0, 0, 0.02]]),
    "light": np.array([[0, 0.02, 0], [0, 0, 0.02], [0.02, 0, 0]]),
    "dark": np.array([[0.01, 0.03, 0], [0, 0, 0.03], [0.03, 0.01, 0]]),
}


def draw_graph(weights: np.ndarray, size: int = SIZE) -> bytes:
    """A graph that scores a picture by its mean colour, `weights` `(3, labels)`."""
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels"], ["embedding"], axes=[1, 2], keepdims=0),
        helper.make_node("MatMul", ["embedding", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    width = weights.shape[1]
    graph = helper.make_graph(
        nodes,
        "mean colour",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", size, size, 3])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", wide])
            for name, wide in {"probabilities": width, "logits": width, "embedding": 3}.items()
        ],
        [numpy_helper.from_array(weights.astype(np.float32), "weights")],
    )
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def tested(**accuracies: float) -> dict[str, Any]:
    """Test figures by subgroup, each with an interval, as training writes them."""
    rows = {
        name: {
            "n": 400,
            "accuracy": value,
            "balanced_accuracy": value - 0.01,
            "auroc": None,
            "ece": 0.05,
            "intervals": {"accuracy": [value - 0.1, value + 0.05], "auroc": None},
        }
        for name, value in accuracies.items()
    }
    spread = max(accuracies.values()) - min(accuracies.values())
    fairness = {"spread": spread, "worst": min(accuracies.values()), "intervals": {"spread": [0.0, 0.2]}}
    mean, n = sum(accuracies.values()) / len(rows), 400 * len(rows)
    return {"accuracy": mean, "n": n, "by_class": {}, "fairness": fairness, "by_subgroup": rows}


def draw_bundle(
    subgroup: Subgroup | None = None,
    *,
    model: str = MODEL,
    weights: np.ndarray | None = None,
    seed: int = 0,
    **parts: Any,
) -> Bundle:
    """A bundle for a subgroup; each `seed` makes another one, keywords replace parts of the manifest."""
    subgroup = subgroup or Subgroup()
    graph = draw_graph(WEIGHTS.get(subgroup.name, WEIGHTS["global"]) if weights is None else weights)
    given = {
        "model": model,
        "file": ModelFile.of(graph),
        "labels": LABELS,
        "picture": PictureRule(size=SIZE),
        "subgroup": subgroup,
        "patients_by_tone": patients_of(subgroup),
        "conformal": Conformal(
            alpha=0.1,
            threshold_bin=at_log_odds(-1.5),
            n=412,
            guarantee="global" if subgroup.is_global else "subgroup",
        ),
        "conclusions": concluding(0.25),
        "evaluation": evaluation_of(parts.pop("metrics", tested(light=0.82, dark=0.8))),
        "lineage": Lineage(job="sha256:" + "0" * 64, recipe="fedauto", seed=seed, code_version="0.1.0"),
    }
    manifest = BundleManifest(**{**given, **parts})
    return Bundle(manifest, graph, bundle_digest(manifest))


@dataclass(frozen=True)
class Places:
    """Where a registry under test keeps things."""

    folder: Path

    @property
    def url(self) -> str:
        """The database's address."""
        return f"sqlite:///{self.folder / 'registry.db'}"

    @property
    def store(self) -> Path:
        """The folder of objects."""
        return self.folder / "store"

    def open(self) -> Registry:
        """The registry, opened."""
        return Registry.open(self.url, str(self.store), actor="tester")

    def spoil(self, digest: str) -> None:
        """Changes one bit of an object, as a bad disk does."""
        name = digest.removeprefix("sha256:")
        path = self.store / "objects" / name[:2] / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.chmod(0o644)
        path.write_bytes(content)


def release(registry: Registry, *bundles: Bundle) -> Release:
    """Adds the bundles and promotes them to production."""
    versions = registry.add(bundles)
    model = versions[0].model
    registry.promote(
        model, [one.number for one in versions], to="production", reason="test", override_gates=True
    )
    return registry.require_release(model, "production")


def paint(
    colour: tuple[int, ...] = (200, 90, 30), size: tuple[int, int] = (32, 24), mode: str = "RGB"
) -> Image.Image:
    """A picture of one colour, with something in a corner."""
    image = Image.new(mode, size, colour)
    image.paste(Image.new(mode, (size[0] // 2 or 1, size[1] // 2 or 1), colour[::-1]), (0, 0))
    return image


def encode(image: Image.Image, form: str = "JPEG", **options: Any) -> bytes:
    """The bytes of a picture."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def read_problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of an answer, if it is one in our shape."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    kinds = {"type": str, "title": str, "status": int, "detail": str, "request_id": str}
    assert {name: type(value) for name, value in body.items()} == kinds
    assert body["status"] == status
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["detail"]
    return body


@dataclass(frozen=True)
class Service:
    """A service that runs on a port."""

    port: int
    client: httpx.Client

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def diagnose(
        self, content: bytes | None = None, kind: str = "image/jpeg", **options: Any
    ) -> httpx.Response:
        """Sends a picture as the body; keywords go to httpx."""
        headers = {"Content-Type": kind, **options.pop("headers", {})}
        body = encode(paint()) if content is None else content
        return self.client.post("/v1/diagnoses", content=body, headers=headers, **options)

    def form(self, parts: Mapping[str, Any], files: Any = None, **options: Any) -> httpx.Response:
        """Sends a picture in a form, with other fields."""
        files = {"image": ("lesion.jpg", encode(paint()), "image/jpeg")} if files is None else files
        return self.client.post("/v1/diagnoses", data=dict(parts), files=files, **options)

    def raw(self, sent: bytes, seconds: float = 60, *, end: bool = False, all_of_it: bool = False) -> bytes:
        """Sends bytes as they are over a socket of its own and reads until the service closes or waits.

        With `all_of_it` only until it closes.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as line:
            line.sendall(sent)
            if end:
                line.shutdown(socket.SHUT_WR)
            got = b""
            while all_of_it or b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < length(got):
                if not (more := line.recv(65536)):
                    break
                got += more
            return got

    def eventually(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        """Waits until something holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, "it never came to hold"
            time.sleep(0.02)


def length(got: bytes) -> int:
    """The length of the body that an answer's head announces."""
    for line in got.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@contextmanager
def running(
    source: Callable[[], AbstractContextManager[Any]], headers: Mapping[str, str] | None = None, **set_to: Any
) -> Iterator[Service]:
    """The service over a source of releases, on a free port; keywords are settings."""
    settings = ServeSettings(**{"poll_seconds": 0.2, "threads": 2, "records": None, **set_to})
    # A thread cannot run the service's own server: what that one does is tested over a real service.
    server = uvicorn.Server(
        uvicorn.Config(build_app(settings, source), http="h11", ws="none", log_config=None, access_log=False)
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio's own sockets have it
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the service did not start"
                time.sleep(0.005)
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", timeout=120, headers=headers, trust_env=False
            ) as client:
                yield Service(port, client)
        finally:
            server.should_exit = True
            thread.join()


class SharedTemplate(Template):
    """One that stays when a service closes it; to start one for each service would take long."""

    def close(self) -> None:
        """Stays."""


@pytest.fixture(scope="session", autouse=True)
def one_template() -> Iterator[Template]:
    """What the decoders of all services under test are forked from."""
    template = SharedTemplate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("serving.decoding.decoders.Template", lambda: template)
        yield template
    Template.close(template)


@pytest.fixture(scope="session")
def bundle() -> Callable[..., Bundle]:
    """Draws a bundle: for a subgroup, with weights; keywords replace parts of its manifest."""
    return draw_bundle


@pytest.fixture(scope="session")
def promote() -> Callable[..., Release]:
    """Adds bundles to a registry and promotes them to production."""
    return release


@pytest.fixture(scope="session")
def light() -> Subgroup:
    """The subgroup of the tones 1 and 2."""
    return LIGHT


@pytest.fixture(scope="session")
def dark() -> Subgroup:
    """The subgroup of the tones V and VI, written in Roman numerals."""
    return DARK


@pytest.fixture(scope="session")
def image() -> Callable[..., Image.Image]:
    """Paints a picture of one colour, with something in a corner."""
    return paint


@pytest.fixture(scope="session")
def picture() -> Callable[..., bytes]:
    """The bytes of a picture: of a colour, size and mode, in a format."""

    def draw(form: str = "JPEG", *arguments: Any, **options: Any) -> bytes:
        named = {name: options.pop(name) for name in ("colour", "size", "mode") if name in options}
        return encode(paint(*arguments, **named), form, **options)

    return draw


@pytest.fixture(scope="session")
def problem() -> Callable[[httpx.Response, int], dict[str, Any]]:
    """The problem document of an answer, if it is one in our shape and of this status."""
    return read_problem


@pytest.fixture(scope="session")
def places_of() -> type[Places]:
    """Places of the registry in a folder."""
    return Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Places of a registry that is not there yet."""
    return Places(tmp_path / "registry")


@pytest.fixture
def registry(places: Places) -> Iterator[Registry]:
    """A new registry."""
    with places.open() as opened:
        yield opened


@pytest.fixture
def serve(places: Places) -> Callable[..., AbstractContextManager[Service]]:
    """Runs the service over `places`, or over another source; keywords are settings."""

    def start(source: Callable[[], Any] | None = None, **settings: Any) -> AbstractContextManager[Service]:
        return running(source or places.open, **settings)

    return start


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The release of `service`: versions for everybody, for light and for dark skin."""
    with Places(tmp_path_factory.getbasetemp() / "shared").open() as opened:
        return release(opened, draw_bundle(), draw_bundle(LIGHT), draw_bundle(DARK))


@pytest.fixture(scope="session")
def service(released: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One open service for all tests that only ask."""
    with running(Places(tmp_path_factory.getbasetemp() / "shared").open) as started:
        yield started


@pytest.fixture(scope="session")
def keeping(released: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The same, which keeps answers for their outcomes."""
    url = f"sqlite:///{tmp_path_factory.mktemp('outcomes') / 'outcomes.db'}"
    shared = Places(tmp_path_factory.getbasetemp() / "shared")
    with running(shared.open, outcomes_url=url, requests_per_minute=0) as started:
        yield started
