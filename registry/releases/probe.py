"""Probes a model before it answers anybody: loads and asks it in a process of its own, within limits.

A graph can take all memory, never end, or crash ONNX Runtime. So nothing of it is read or loaded here: that
is up to a child, `registry.releases.probe_child`, which has limits on processor time, memory and files, no
variables of the environment, and no code but ours, numpy, onnx and ONNX Runtime to import. Where it is
killed or crashes, the model is refused and the parent goes on. This is no wall against a file that takes over
ONNX Runtime itself: the child is a process of the same user.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from registry.bundle.frozen import Frozen
from registry.bundle.manifest import BundleManifest, promise_of
from registry.bundle.model import Promise
from registry.confined import ENVIRONMENT, import_roots, kept_variables
from registry.errors import BundleRefused, InvalidName

SECONDS: Final = 120
"""Seconds of one core that a model has, unless `DERMFED_PROBE_SECONDS` says otherwise."""

WALL: Final = 4
"""How many times as long the clock may run: others want the cores too."""

MEMORY: Final = 2**30
MEMORY_PER_MODEL_BYTE: Final = 6
MEMORY_PER_PIXEL: Final = 2048
"""Bytes of address space: so many, and for each byte of the model and each pixel that is shown at once.

ONNX Runtime holds a model three times while it loads; a network's layers hold 200 to 800 bytes a pixel.
"""

_VARIABLE = "DERMFED_PROBE_SECONDS"
_LONGEST_ANSWER = 2**16  # bytes
_LONGEST_TEXT = 600  # characters
_MOST_SECONDS = 86_400
_ENVIRONMENT: Final = {**ENVIRONMENT, "ORT_DISABLE_TELEMETRY": "1"}

PROGRAM: Final = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); "
    "from registry.releases.probe_child import main; main()"
)
"""What the child runs: `site` is not imported, and so only what is named here is found."""


class _Found(Frozen):
    """What the child found that a model takes and answers; see `registry.bundle.model.Graph`."""

    model_config = ConfigDict(strict=True)

    size: int
    takes_cases: bool
    facts: int
    classes: int
    features: int


class Answer(Frozen):
    """The child's answer.

    Attributes:
        found: what the model takes and answers; None where it was not loaded.
        refused: what went wrong: the file itself, its header, loading it, what it answers, memory, or
            what the child has to import.
        text: what exactly.
    """

    model_config = ConfigDict(strict=True)

    found: _Found | None
    refused: Literal["file", "header", "load", "answers", "memory", "import"] | None
    text: str = Field(max_length=_LONGEST_ANSWER)

    @model_validator(mode="after")
    def _passed_means_loaded(self) -> "Answer":
        if self.refused is None and self.found is None:
            raise ValueError("nothing was found and nothing refused")
        return self


class _Passed:
    """Which models passed in this process, by digest and promise: the same bytes are not asked again."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        # One child at a time: together they would take the memory of several.
        self.alone = threading.Lock()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        if len(self._keys) >= 10_000:
            self._keys.clear()
        self._keys.add(key)


_PASSED = _Passed()


def probe_file(path: Path, manifest: BundleManifest, title: str) -> None:
    """Probes the model in a file, whose digest is the one in its manifest.

    Args:
        path: of `model.onnx`.
        manifest: of its bundle.
        title: what messages call the bundle.

    Raises:
        BundleRefused: saying what the model is or does, what is allowed, and what to do.
        InvalidName: `DERMFED_PROBE_SECONDS` is no such number.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        _probe(file, manifest, title)


def probe_bytes(model: bytes, manifest: BundleManifest, title: str) -> None:
    """Probes a model that is in memory, as `probe_file`."""
    with tempfile.TemporaryFile() as file:
        file.write(model)
        file.seek(0)
        _probe(file, manifest, title)


def _probe(file: IO[bytes], manifest: BundleManifest, title: str) -> None:
    promise = promise_of(manifest)
    told = json.dumps({"sha256": manifest.file.sha256, **asdict(promise)}, sort_keys=True)
    seconds = _seconds()
    if told in _PASSED:
        return
    with _PASSED.alone:
        if told in _PASSED:
            return
        memory = _memory(manifest.file.size, promise)
        ended = _run(file, told, seconds, memory)
        answer = ended.answer
        if answer is None:
            raise BundleRefused(f"{title} has a model that {_how_it_ended(ended.code, seconds, memory)}")
        if answer.found is not None:
            _check_promise(answer.found, promise, title)
        if answer.refused is not None:
            raise BundleRefused(f"{title} has a model that {_refusal(answer, memory)}")
        _PASSED.add(told)


def _seconds() -> int:
    text = os.environ.get(_VARIABLE, str(SECONDS))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_SECONDS):
        raise InvalidName(
            f"{_VARIABLE} is {text!r}; it is a whole number of seconds from 1 to {_MOST_SECONDS:,}"
        )
    return int(text)


def _memory(model_bytes: int, promise: Promise) -> int:
    return MEMORY + MEMORY_PER_MODEL_BYTE * model_bytes + MEMORY_PER_PIXEL * promise.pixels


@dataclass(frozen=True)
class _Ended:
    """How a child ended: its exit code, -15 for the signal 15, and what it answered, if that can be read."""

    code: int
    answer: Answer | None


def _run(file: IO[bytes], told: str, seconds: int, memory: int) -> _Ended:
    limits = {"RLIMIT_AS": memory, "RLIMIT_CPU": seconds, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}
    command = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        "-c",
        PROGRAM,
        json.dumps(_roots()),
        json.dumps(limits),
        told,
    ]
    with tempfile.TemporaryDirectory() as empty:
        try:
            child = subprocess.Popen(
                command,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=empty,
                env={**_ENVIRONMENT, **kept_variables()},
            )
        except OSError as error:
            raise BundleRefused(f"a model cannot be probed: no process can be started ({error})") from error
        with child:
            clock = threading.Timer(WALL * seconds, child.send_signal, [signal.SIGXCPU])
            clock.start()
            try:
                assert child.stdout is not None
                said = child.stdout.read(_LONGEST_ANSWER + 1)
                if len(said) > _LONGEST_ANSWER:
                    child.kill()
                code = child.wait()
            finally:
                clock.cancel()
                child.kill()
    return _Ended(code, _read(said) if code == 0 else None)


def _roots() -> list[str]:
    """The folders that the packages which the child imports are in."""
    try:
        return import_roots(("registry", "numpy", "onnx", "onnxruntime"))
    except ModuleNotFoundError as error:
        raise BundleRefused(
            f"a model cannot be probed without {error.name}; pip install dermfed[cpu]"
        ) from error


def _read(said: bytes) -> Answer | None:
    try:
        return Answer.model_validate_json(said)
    except ValidationError:
        return None


def _how_it_ended(code: int, seconds: int, memory: int) -> str:
    """Why there is no answer."""
    if code == -signal.SIGXCPU:
        return (
            f"had not answered some drawn pictures after {seconds} seconds of one core, or {WALL * seconds} "
            "by the clock; a loop in it may have no end. Choose a smaller network, or on a slow machine set "
            f"{_VARIABLE} (up to {_MOST_SECONDS:,})"
        )
    if code == -signal.SIGKILL:
        return (
            f"was killed while it was probed with up to {memory:,} bytes of memory, mostly since the machine "
            "has no more; add it where there is more, or choose a smaller network"
        )
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code} and no answer"
    return (
        f"crashes ONNX Runtime (the probe {how}; it had {memory:,} bytes of memory); export it again, and do "
        "not take it from where it came"
    )


def _check_promise(found: _Found, promise: Promise, title: str) -> None:
    if found.size != promise.size:
        raise BundleRefused(
            f"{title} has a model for pictures of {found.size} pixels and a picture rule of {promise.size}; "
            "export it again"
        )
    facts = len(promise.facts)
    if (found.takes_cases, found.facts) != (promise.slots is not None, facts):
        takes = f"cases with {found.facts} facts" if found.takes_cases else "single pictures"
        says = "single pictures" if promise.slots is None else f"cases with {facts} facts"
        raise BundleRefused(f"{title} has a model of {takes} and a manifest of {says}; export it again")
    if found.classes != promise.classes:
        raise BundleRefused(
            f"{title} has {promise.classes} labels and a model of {found.classes} classes; export it again"
        )
    if promise.features not in (None, found.features):
        raise BundleRefused(
            f"{title} has a model whose embedding has {found.features} numbers and statistics of "
            f"{promise.features}; export it again"
        )


def _refusal(answer: Answer, memory: int) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in answer.text)[:_LONGEST_TEXT]
    says = {
        "file": f"cannot be read: {text}",
        "header": f"is refused: {text}",
        "load": f"does not load: {text}",
        "answers": f"misbehaves: {text}",
        "memory": (
            f"needs more memory than the {memory:,} bytes that it is given; a constant in it may be huge. "
            f"Choose a smaller network, or export it without such constants ({text})"
        ),
        "import": f"cannot be probed here: {text}; pip install dermfed[cpu]",
    }
    return says[answer.refused or "file"]
