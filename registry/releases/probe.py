"""Probes a model before it answers anybody: loads and asks it in a process of its own, within limits.

A graph can take all memory, never end, or crash ONNX Runtime. So the model is read and loaded by a child
alone, `registry.releases.probe_child`, which has limits on processor time, memory and files, no variables of
the environment, and no code but ours, numpy, onnx and ONNX Runtime to import. Where it is killed or crashes,
the model is refused and the parent goes on. This is no wall against a file that takes over ONNX Runtime
itself: the child is a process of the same user.
"""

import json
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from registry.bundle.frozen import Frozen
from registry.bundle.manifest import BundleManifest, promise_of
from registry.confined import ENVIRONMENT, import_roots, kept_variables
from registry.errors import BundleRefused

SECONDS: Final = 300
"""Seconds of one core that a model has."""

WALL: Final = 4
"""How many times as long the clock may run: others want the cores too."""

MEMORY: Final = 2**30
MEMORY_PER_MODEL_BYTE: Final = 6
MEMORY_PER_PIXEL: Final = 2048
"""Bytes of address space: so many, and for each byte of the model and each pixel that is shown at once.

ONNX Runtime holds a model three times while it loads; a network's layers hold 200 to 800 bytes a pixel.
"""

_LONGEST_ANSWER = 2**16  # bytes
_LONGEST_TEXT = 600  # characters
_ENVIRONMENT: Final = {**ENVIRONMENT, "ORT_DISABLE_TELEMETRY": "1"}

PROGRAM: Final = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); "
    "from registry.releases.probe_child import main; main()"
)
"""What the child runs: `site` is not imported, and so only what is named here is found."""


class Answer(Frozen):
    """The child's answer.

    Attributes:
        refused: what went wrong: the file itself, its header, loading it, what it takes, what it answers,
            memory, or what the child has to import; None where the model passed.
        text: what exactly.
    """

    model_config = ConfigDict(strict=True)

    refused: Literal["file", "header", "load", "takes", "answers", "memory", "import"] | None
    text: str = Field(max_length=_LONGEST_ANSWER)


_passed: set[str] = set()
"""Which models passed in this process, by digest and promise: the same bytes are not asked again."""

_one_at_a_time = threading.Lock()  # several children would take the memory of several


def probe_model(model: Path | bytes, manifest: BundleManifest, title: str) -> None:
    """Probes a model, whose digest is the one in its manifest.

    Args:
        model: the file `model.onnx`, or its bytes.
        manifest: of its bundle.
        title: what messages call the bundle.

    Raises:
        BundleRefused: saying what the model is or does, what is allowed, and what to do.
        OSError: the file cannot be read.
    """
    promise = promise_of(manifest)
    asked = json.dumps({"sha256": manifest.file.sha256, **asdict(promise)}, sort_keys=True)
    memory = MEMORY + MEMORY_PER_MODEL_BYTE * manifest.file.size + MEMORY_PER_PIXEL * promise.pixels
    if asked in _passed:
        return  # without waiting for another model's probe
    with (
        _one_at_a_time,
        model.open("rb") if isinstance(model, Path) else tempfile.TemporaryFile() as file,
    ):
        if asked in _passed:
            return
        if isinstance(model, bytes):
            file.write(model)
            file.seek(0)
        code, answer = _run(file, asked, memory)
        if answer is None:
            raise BundleRefused(f"{title} has a model that {_how_it_ended(code, memory)}")
        if answer.refused is not None:
            raise BundleRefused(f"{title} has a model that {_refusal(answer, memory)}")
        _passed.add(asked)


def _run(file: IO[bytes], asked: str, memory: int) -> tuple[int, Answer | None]:
    """How a child ended: its exit code, -15 for the signal 15, and its answer, if that can be read."""
    limits = {"RLIMIT_AS": memory, "RLIMIT_CPU": SECONDS, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}
    try:
        roots = import_roots(("registry", "numpy", "onnx", "onnxruntime"))
    except ModuleNotFoundError as error:
        raise BundleRefused(
            f"a model cannot be probed without {error.name}; pip install dermfed[cpu]"
        ) from error
    program = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM]
    with tempfile.TemporaryDirectory() as empty:
        try:
            child = subprocess.Popen(
                [*program, json.dumps(roots), json.dumps(limits), asked],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=empty,
                env={**_ENVIRONMENT, **kept_variables()},
            )
        except OSError as error:
            raise BundleRefused(f"a model cannot be probed: no process can be started ({error})") from error
        with child:
            clock = threading.Timer(WALL * SECONDS, child.send_signal, [signal.SIGXCPU])
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
    try:
        return code, Answer.model_validate_json(said) if code == 0 else None
    except ValidationError:
        return code, None


def _how_it_ended(code: int, memory: int) -> str:
    """Why there is no answer."""
    if code == -signal.SIGXCPU:
        return (
            f"had not answered some drawn pictures after {SECONDS} seconds of one core, or {WALL * SECONDS} "
            "by the clock; a loop in it may have no end. Choose a smaller network"
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


def _refusal(answer: Answer, memory: int) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in answer.text)[:_LONGEST_TEXT]
    says = {
        "file": f"cannot be read: {text}",
        "header": f"is refused: {text}",
        "load": f"does not load: {text}",
        "takes": f"does not fit its manifest: {text}; export it again",
        "answers": f"misbehaves: {text}",
        "memory": (
            f"needs more memory than the {memory:,} bytes that it is given; a constant in it may be huge. "
            f"Choose a smaller network, or export it without such constants ({text})"
        ),
        "import": f"cannot be probed here: {text}; pip install dermfed[cpu]",
    }
    return says[answer.refused or "file"]
