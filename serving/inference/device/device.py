"""A device that models run on, and opening a session on it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from registry.bundle.errors import GraphError
from registry.bundle.model_file.session import Opener, Session, open_session
from serving.inference.device.bound_session import BoundSession
from serving.inference.device.kinds import NAME, PROVIDER, providers_of
from serving.inference.device.placement import RECORD, left_behind, told
from serving.inference.device.runtime import OnnxRuntime, Runtime
from serving.settings import DeviceKind


@dataclass(frozen=True)
class Device:
    """What models run on.

    Attributes:
        kind: which device it is.
        why: why this one was taken, a sentence without its full stop.
        health_issue: what an operator has to know of that; None where all is as it should be.
        device_bytes: how much of its memory one model may take; None for all there is.
        runtime: what opens sessions.
    """

    kind: DeviceKind = "cpu"
    why: str = "nothing else was asked for"
    health_issue: str | None = None
    device_bytes: int | None = None
    runtime: Runtime = field(default_factory=OnnxRuntime, compare=False)

    @property
    def is_gpu(self) -> bool:
        """Whether it is another device than the processor."""
        return self.kind != "cpu"

    @property
    def told(self) -> str:
        """What it is and why, a sentence without its full stop."""
        return f"models run on {NAME[self.kind]}: {self.why}"

    def opener(self, note: Callable[[str], None], *, tf32: bool = False) -> Opener:
        """Opens sessions of graphs on this device.

        Args:
            note: is called with what is worth knowing of a session, a sentence without its full stop.
            tf32: whether products may be of TensorFloat-32.
        """
        if not self.is_gpu:
            return open_session

        def open_here(content: bytes, threads: int) -> Session:
            providers = providers_of(self.kind, self.device_bytes, tf32=tf32)
            session = self.runtime.open(content, threads, providers, RECORD)
            found = list(session.get_providers())
            if found[:1] != [PROVIDER[self.kind]]:
                raise GraphError(
                    f"ONNX Runtime took {', '.join(found) or 'nothing'} for the model in place of "
                    f"{PROVIDER[self.kind]}; look at the GPU's driver and libraries, or set "
                    "DERMFED_SERVE_PROVIDERS=cpu"
                )
            others = left_behind(session, PROVIDER[self.kind])
            if others:
                note(f"{told(others)} of the model's nodes do not run on {NAME[self.kind]}")
            return BoundSession(session)

        return open_here


ON_PROCESSOR: Final = Device()
"""The processor, without having looked for anything else."""
