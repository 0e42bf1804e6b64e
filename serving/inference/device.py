"""The device that models run on: the execution provider that `DERMFED_SERVE_PROVIDERS` names.

ONNX Runtime lists a GPU's provider wherever it was built with it. Where the driver or a library is missing,
it opens the session on the processor and says so on standard error alone. So each session is asked what it
runs on.
"""

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import onnxruntime

from registry.bundle.errors import GraphError
from registry.bundle.model import PROCESSOR, Graph, Providers, Session, open_session
from serving.settings import DeviceKind, ServeSettings

PROVIDER: Final[Mapping[DeviceKind, str]] = {
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "cpu": PROCESSOR,
}
"""ONNX Runtime's execution provider of each kind of device."""

# y = relu(x) of one number: whether a session of it is on a device does not depend on what it computes.
_SMALLEST_GRAPH: Final = (
    b'\x08\x08:3\n\x0c\n\x01x\x12\x01y"\x04Relu\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01'
    b"b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\r"
)


class DeviceUnusable(Exception):  # noqa: N818 - a state of the machine
    """The execution provider that the settings name does not run here."""


@dataclass(frozen=True)
class Device:
    """Loads models.

    Attributes:
        kind: which device models run on.
        device_bytes: how much memory of a GPU one model may take; None for all there is.
        lone_threads: threads of the processor for a picture that is alone.
    """

    kind: DeviceKind = "cpu"
    device_bytes: int | None = None
    lone_threads: int = 1

    @classmethod
    def of(cls, settings: ServeSettings) -> "Device":
        """The device that the settings name, whether it runs here or not."""
        return cls(settings.providers, settings.device_bytes, settings.lone_threads)

    def require_provider(self) -> None:
        """Checks that ONNX Runtime was built with the provider; nothing is started on the device.

        Raises:
            DeviceUnusable: it was not.
        """
        if PROVIDER[self.kind] not in (known := onnxruntime.get_available_providers()):
            raise self._unusable(f"the ONNX Runtime that is installed knows {', '.join(known)} alone")

    def require(self) -> None:
        """Checks that ONNX Runtime can start sessions on the device.

        Raises:
            DeviceUnusable: it cannot.
        """
        self.require_provider()
        try:
            self._open(_SMALLEST_GRAPH, 1)
        except GraphError as error:
            raise self._unusable(str(error)) from error

    def load(self, content: bytes) -> tuple[Graph, Graph | None]:
        """Loads a model; and on the processor once more on several threads, for a picture that is alone.

        Raises:
            GraphError: it is none that a bundle may hold, or does not run on the device.
        """
        alone = self.kind == "cpu" and self.lone_threads > 1
        graph = Graph(content, open_with=self._open)
        return graph, Graph(content, self.lone_threads) if alone else None

    def _open(self, content: bytes, threads: int) -> Session:
        if self.kind != "cpu":
            # Loads what `onnxruntime-gpu[cuda,cudnn]` installs; it prints what it misses, and goes on.
            with contextlib.redirect_stdout(io.StringIO()):
                onnxruntime.preload_dlls()
        session = open_session(content, threads, self._providers())
        found: Session = session
        if session.get_providers()[:1] != [PROVIDER[self.kind]]:
            raise GraphError(
                f"ONNX Runtime took {', '.join(session.get_providers())} in place of {PROVIDER[self.kind]}; "
                "what it misses is on its standard error"
            )
        return found

    def _unusable(self, why: str) -> DeviceUnusable:
        return DeviceUnusable(
            f"DERMFED_SERVE_PROVIDERS is {self.kind!r}, and {PROVIDER[self.kind]} does not run here: "
            f"{why}; install the driver and `pip install dermfed[serve-gpu]` in place of "
            "`dermfed[serve]` (docs/gpu.md), or set it to 'cpu'"
        )

    def _providers(self) -> Providers:
        """The providers of a session, the preferred first: what one cannot run goes to the next."""
        processor: tuple[str, dict[str, str]] = (PROCESSOR, {})
        if self.kind == "cpu":
            return (processor,)
        bounded = {} if self.device_bytes is None else {"gpu_mem_limit": str(self.device_bytes)}
        cuda = {
            # The arena grows by what is asked for, not to the next power of two: two releases share the GPU.
            "arena_extend_strategy": "kSameAsRequested",
            # An exhaustive search, the default, runs every algorithm again for each size of batch.
            "cudnn_conv_algo_search": "HEURISTIC",
            # Thresholds were chosen on the processor, whose products have 24 bits of mantissa and not ten.
            "use_tf32": "0",
            **bounded,
        }
        if self.kind == "cuda":
            return ((PROVIDER["cuda"], cuda), processor)
        workspace = {} if self.device_bytes is None else {"trt_max_workspace_size": str(self.device_bytes)}
        tensorrt = {"trt_fp16_enable": "False", **workspace}
        return ((PROVIDER["tensorrt"], tensorrt), (PROVIDER["cuda"], cuda), processor)
