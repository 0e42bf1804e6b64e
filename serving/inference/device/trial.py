"""Whether a device works here: a small graph runs on it, in a process of its own, and answers what it should.

In a process of its own, since a driver that does not fit may crash whoever asks it, or never return; and what
ONNX Runtime says of it, which it says on its standard error alone, can be told.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final, get_args

from registry.bundle.errors import GraphError
from registry.bundle.model_file.graph import Graph
from registry.bundle.model_file.promise import Promise
from serving.inference.device.device import Device
from serving.inference.device.kinds import NAME
from serving.inference.device.parity import check_parity
from serving.inference.device.runtime import OnnxRuntime, Runtime
from serving.settings import DeviceKind

GRAPH: Final = Path(__file__).with_name("trial.onnx")
"""A convolution and a product of matrices; `tests/serving/inference/device/trial_graph.py` draws it."""

PROMISE: Final = Promise(size=8, classes=2)

SECONDS: Final = 120.0
"""How long a trial may take; TensorRT builds an engine meanwhile."""

PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from serving.inference.device.trial import main; main()"
)
"""What that process runs; it finds modules where this one does."""

LIBRARIES: Final = {
    "libcuda.so": "the GPU's driver; in a container NVIDIA's Container Toolkit brings it",
    "libnvinfer": "TensorRT, which is installed by itself",
    "libcu": "CUDA and cuDNN: pip install 'onnxruntime-gpu[cuda,cudnn]'",
}
"""What a library that is missing belongs to, by how its name begins."""

_LONGEST: Final = 400
_WHY: Final = re.compile(r"with error: ([^\n]+)|(Failed to create \w+[^\n]*)|(CUDA failure \d+: [^;\n]+)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def try_out(kind: DeviceKind, runtime: Runtime) -> str | None:
    """Runs the small graph on a device, in this process; None where it works, else why it does not."""
    content = GRAPH.read_bytes()
    try:
        device = Device(kind, runtime=runtime)
        graph = Graph(content, open_with=device.opener(lambda _: None))
        check_parity(graph, Graph(content), PROMISE, NAME[kind])
    except GraphError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's exceptions share no base of their own
        return f"{type(error).__name__}: {error}"
    return None


def try_apart(kind: DeviceKind, seconds: float = SECONDS) -> str | None:
    """Tries a device in a process of its own; None where it works, else why it does not.

    Args:
        kind: the device.
        seconds: how long that may take.
    """
    command = [sys.executable, "-c", PROGRAM, json.dumps(sys.path), kind]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a small graph had not run on it after {seconds:g} seconds"
    except OSError as error:
        return f"no process can be started to try it ({error})"
    return _read(ended.returncode, ended.stdout, ended.stderr)


def _read(code: int, answer: str, said: str) -> str | None:
    """What a trial's process found: its answer is a line of JSON, None or a sentence."""
    said = _COLOURS.sub("", said)
    try:
        why = json.loads(answer.splitlines()[-1])["why"]
    except (IndexError, ValueError, KeyError, TypeError):
        told = said.strip().splitlines()[-1:] or ["without a word"]
        return f"trying it ended with {code}: {told[0][:_LONGEST]}"
    if why is None:
        return None
    # The first that ONNX Runtime says is the cause, what it raises only that there is one.
    cause = _WHY.search(said)
    named = next(one for one in cause.groups() if one) if cause else str(why)
    named = named[:_LONGEST].strip().rstrip(".")
    of = next((owner for name, owner in LIBRARIES.items() if named.startswith(name)), None)
    return named if of is None else f"{named} ({of})"


def main() -> None:
    """Tries the device that the command line names, and prints what was found as a line of JSON."""
    kind = next(one for one in get_args(DeviceKind) if one == sys.argv[1])
    print(json.dumps({"why": try_out(kind, OnnxRuntime())}), flush=True)
