"""ONNX Runtime's session of a graph with all weights inside it, on the processor or another device."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from registry.bundle.errors import GraphError

# ONNX Runtime reports its use to its makers and writes a device number into the user's cache, unless
# it is told otherwise before it is loaded. Nothing goes over the network uninvited.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

Providers = Sequence[tuple[str, Mapping[str, str]]]
"""Execution providers, the preferred first, each with its options."""

PROCESSOR: Final = "CPUExecutionProvider"


class Session(Protocol):
    """What a graph needs of a session."""

    def get_inputs(self) -> Sequence[Any]:
        """The inputs, each with `name`, `type` and `shape`."""
        ...

    def get_outputs(self) -> Sequence[Any]:
        """The outputs, likewise."""
        ...

    def run(self, names: Sequence[str] | None, feed: Mapping[str, NDArray[Any]]) -> Sequence[Any]:
        """The outputs of these names, all of them where it is None, for inputs by name."""
        ...


Opener = Callable[[bytes, int], Session]
"""Opens a session of the bytes of an ONNX file, with so many threads within one operator."""


def open_session(content: bytes, threads: int, providers: Providers = ((PROCESSOR, {}),)) -> Any:
    """ONNX Runtime's session of a graph with all its weights inside it.

    Args:
        content: the bytes of an ONNX file.
        threads: threads within one operator.
        providers: on what it runs. ONNX Runtime may leave one out without a word: ask `get_providers()`.

    Raises:
        GraphError: ONNX Runtime cannot load it, or its weights are in other files.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Bytes that begin as ONNX Runtime's own format would else be read as that, whatever ONNX is in them.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised; nothing is printed besides
    # Weights in other files would be looked for in the working directory: look where there are none.
    nothing = tempfile.mkdtemp()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", nothing)
    chosen = [(name, dict(given)) for name, given in providers]
    try:
        return onnxruntime.InferenceSession(content, options, providers=chosen, enable_fallback=0)
    except Exception as error:
        # ONNX Runtime's exceptions share no base of their own.
        raise _refusal(error) from error
    finally:
        Path(
            nothing
        ).rmdir()  # removing what is in it, too, would take file handles, which a probe has none of


def _refusal(error: Exception) -> GraphError:
    if "external data" in str(error).lower():
        return GraphError(
            f"the graph keeps weights in other files ({error}); save the model with all weights inside it"
        )
    return GraphError(f"ONNX Runtime cannot load the graph ({error}); export the model again")
