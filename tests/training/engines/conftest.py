"""A federation in one process: a request handler at each hospital, channels that break as a network does."""

import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.loopback.permissive import permissive
from clients.data.adapters.table import make_adapter
from clients.data.manifest import Manifest
from clients.data.manifest_file import write_manifest
from clients.data.prepare import prepare
from clients.node.request_handler import RequestHandler
from clients.store import ClientStore
from training.engines.calls import ChannelError, Heartbeat, SiteRefusedError
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.engines.session import CoordinatorSession
from training.engines.wire import Payload, ResponseHeader, read_payload
from training.errors import CheckpointError, MessageError, public_message
from training.jobs.job import Job
from training.jobs.pipeline import RunResult, run_stages
from training.jobs.run_folder import RunFolder
from training.rounds.server.metrics import MetricsLog

HOSPITALS = {"north": 34, "south": 22, "east": 28, "west": 25}  # pictures of each
QUICK = {"heartbeat_timeout": 0.6, "deadline": 60}


def made_up(folder: Path, name: str, pictures: int) -> Path:
    """A hospital's manifest of drawn pictures, with lesions and patients of its own."""
    adapter = make_adapter("synthetic", {"pictures": pictures, "size": 32, "seed": len(name) + pictures})
    made = adapter.manifest(folder / f"{name}-pictures")
    rows = [
        type(row)(
            **{
                **{key: getattr(row, key) for key in row.__slots__},
                "lesion_id": f"{name} {row.lesion_id}",
                "patient_id": f"{name} {row.patient_id}",
                "image": str(Path(made.folder) / row.image),
            }
        )
        for row in made.rows
    ]
    write_manifest(Manifest.of(rows, folder), folder / f"{name}.csv")
    return folder / f"{name}.csv"


@pytest.fixture(scope="session")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The hospitals' manifests."""
    folder = tmp_path_factory.mktemp("hospitals")
    return {name: made_up(folder, name, pictures) for name, pictures in HOSPITALS.items()}


# Hospitals are processes of their own; here they share torch's generator and its number of threads.
ONE_AT_A_TIME = threading.Lock()


@dataclass
class InProcessChannel:
    """A channel to a request handler in this process; a test may break it.

    Attributes:
        reception: of the site.
        cut: why nothing comes through, or None.
        before_ask, after_ask: called with each request's header and whether it came through.
        waiting: one for each call that waits for its turn or has it: a site of its own would be at work.
    """

    reception: RequestHandler
    cut: str | None = None
    before_ask: Callable[[str], None] = field(default=lambda header: None)
    after_ask: Callable[[str, tuple[str, Payload]], tuple[str, Payload]] = field(
        default=lambda header, answer: answer
    )
    waiting: list[None] = field(default_factory=list)

    def handshake(self, handshake: str, seconds: float) -> str:
        self._through()
        return self.reception.handshake(handshake)

    def register(self, seconds: float) -> str:
        self._through()
        with self._turn():
            return self.reception.register()

    def join(self, roster: str, seconds: float) -> str:
        self._through()
        with self._turn():
            return self.reception.join(roster)

    def ask(
        self, header: str, body: Payload, seconds: float, alive: Callable[[], None]
    ) -> tuple[str, Payload]:
        self.before_ask(header)
        self._through()
        try:
            with self._turn():
                answer = self.reception.answer(header, body)
        except MessageError as error:
            raise SiteRefusedError(f"{error}") from error
        except CheckpointError as error:
            raise SiteRefusedError(public_message(error)) from error
        self._through()
        return self.after_ask(header, answer)

    def ping(self, seconds: float) -> Heartbeat:
        self._through()
        heartbeat = self.reception.heartbeat()
        told = heartbeat.model_copy(update={"busy": heartbeat.busy or bool(self.waiting)})
        self._through()
        return told

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self.waiting.append(None)
        try:
            with ONE_AT_A_TIME:
                yield
        finally:
            self.waiting.pop()

    def _through(self) -> None:
        if self.cut is not None:
            raise ChannelError(self.cut)


def decoded(manifests: Mapping[str, Path]) -> Path:
    """Where pictures are decoded to, once for all tests."""
    return next(iter(manifests.values())).parent / "cache"


@dataclass
class Net:
    """A federation in this process."""

    folder: Path
    job: Job
    manifests: Mapping[str, Path]
    cache: Path
    channels: dict[str, InProcessChannel] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    sessions: int = 0
    progress: io.StringIO = field(default_factory=io.StringIO)
    coordinator: CoordinatorSession | None = None

    def connect(self, *names: str) -> None:
        """Start these hospitals' processes (anew)."""
        for name in names:
            reception = RequestHandler(
                name,
                self.job,
                self.manifests[name],
                cache=self.cache,
                states=self.folder / name / "clients",
                say=self.said.append,
                guard=permissive(self.folder / name, columns=["site"]),
            )
            self.channels[name] = InProcessChannel(reception)

    @property
    def run_folder(self) -> RunFolder:
        return RunFolder(self.folder / "server")

    def run(self, expected: Sequence[str] = tuple(HOSPITALS), **parts: Any) -> RunResult:
        """A session of the coordinator with whoever is connected."""
        self.sessions += 1
        self.run_folder.path.mkdir(parents=True, exist_ok=True)
        console = Console(file=self.progress, width=200)
        self.coordinator = CoordinatorSession(
            self.job, f"session {self.sessions}", dict(self.channels), self.run_folder, console, **parts
        )
        return self.coordinator.run(expected)

    def metrics(self) -> list[dict[str, Any]]:
        return MetricsLog(self.run_folder.metrics, Console(quiet=True)).lines()


@pytest.fixture
def own_job(make_job, manifests) -> Callable[..., Job]:
    """`own_job(**changes)`: a tiny job of the four hospitals' manifests."""

    def build(**changes: Any) -> Job:
        data = {
            "manifest": [str(path) for path in manifests.values()],
            "label_map": "malignancy",
            "clients": {"by": "manifest"},
            **changes.pop("data", {}),
        }
        engine = {"network": QUICK, **changes.pop("engine", {})}
        model = changes.pop("model", None)
        changes.setdefault("privacy", {"min_count": 1})  # the hospitals are too small for more
        job = make_job(data=data, engine=engine, **changes)
        return job if model is None else Job.model_validate({**job.resolved(), "model": model})

    return build


@pytest.fixture
def net(tmp_path, manifests) -> Callable[[Job], Net]:
    """`net(job)`: the four hospitals, connected."""

    def build(job: Job, name: str = "net") -> Net:
        made = Net(tmp_path / name, job, manifests, decoded(manifests))
        made.connect(*HOSPITALS)
        return made

    return build


@pytest.fixture(scope="session")
def here(tmp_path_factory, manifests) -> Callable[[Job], RunResult]:
    """`here(job)`: the same job on one machine, run once for all who ask."""

    ran: dict[str, RunResult] = {}

    def run(job: Job) -> RunResult:
        if job.digest in ran:
            return ran[job.digest]
        folder = RunFolder(tmp_path_factory.mktemp("here"))
        data = prepare(job.data, seed=job.seed, folder=folder.path, cache=decoded(manifests))
        engine = InProcessEngine(ClientAppParts(job, data, ClientStore(folder.store)), folder.spool)
        try:
            with MetricsLog(folder.metrics, Console(quiet=True)) as metrics_log:
                ran[job.digest] = run_stages(job, data, engine, metrics_log, folder.path)
        finally:
            engine.close()
        return ran[job.digest]

    return run


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def heard() -> Callable[[Net], list[tuple[ResponseHeader, dict[str, Any]]]]:
    """`heard(net)`: every answer that reaches the coordinator, as (header, tensors), from now on."""

    def listen(there: Net) -> list[tuple[ResponseHeader, dict[str, Any]]]:
        found = []
        for channel in there.channels.values():

            def note(header: str, answer: tuple[str, Payload]) -> tuple[str, Payload]:
                found.append((ResponseHeader.model_validate_json(answer[0]), dict(read_payload(answer[1]))))
                return answer

            channel.after_ask = note
        return found

    return listen


@pytest.fixture
def in_thread() -> Callable[[Callable[[], Any]], threading.Thread]:
    """Start something in a thread that the test joins."""

    def start(target: Callable[[], Any]) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        return thread

    return start


@pytest.fixture
def wait_until() -> Callable[..., None]:
    return until
