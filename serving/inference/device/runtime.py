"""ONNX Runtime as devices use it: which providers it knows, and sessions on them."""

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from registry.bundle.model_file.session import Providers, Session, open_session


class Binding(Protocol):
    """Inputs and outputs of one run, bound to where they lie."""

    def bind_cpu_input(self, name: str, array: NDArray[Any]) -> None:
        """Binds an input; it is copied to the device here."""
        ...

    def bind_output(self, name: str, device_type: str = ...) -> None:
        """Binds an output to a device's memory."""
        ...

    def copy_outputs_to_cpu(self) -> Sequence[NDArray[np.float32]]:
        """The outputs in the order in which they were bound."""
        ...


class DeviceSession(Session, Protocol):
    """What a device needs of a session besides what a graph needs of it."""

    def get_providers(self) -> Sequence[str]:
        """The providers that it really has, the preferred first."""
        ...

    def io_binding(self) -> Binding:
        """Empty bindings for one run."""
        ...

    def run_with_iobinding(self, binding: Any) -> None:
        """Runs the graph on what is bound."""
        ...

    def get_provider_graph_assignment_info(self) -> Sequence[Any]:
        """Which nodes went to which provider, if that was recorded."""
        ...


class Runtime(Protocol):
    """What devices need of ONNX Runtime; tests have one that pretends."""

    def available(self) -> Sequence[str]:
        """The providers that it was built with, whether they work here or not."""
        ...

    def open(
        self, content: bytes, threads: int, providers: Providers, entries: Mapping[str, str]
    ) -> DeviceSession:
        """A session; see `registry.bundle.model_file.session.open_session`.

        Raises:
            GraphError: there is none.
        """
        ...


class OnnxRuntime:
    """The one that is installed."""

    def available(self) -> Sequence[str]:
        """The providers that it was built with."""
        import onnxruntime

        found: Sequence[str] = onnxruntime.get_available_providers()
        return found

    def open(
        self, content: bytes, threads: int, providers: Providers, entries: Mapping[str, str]
    ) -> DeviceSession:
        """A session; of a GPU, NVIDIA's libraries are looked for among the Python packages first."""
        if len(providers) > 1:
            _preload()
        session: DeviceSession = open_session(content, threads, providers, entries)
        return session


def _preload() -> None:
    """Loads what `onnxruntime-gpu[cuda,cudnn]` installs; what is not there may be on the system."""
    import onnxruntime

    if (preload := getattr(onnxruntime, "preload_dlls", None)) is not None:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it misses; a trial tells that better
            preload()
