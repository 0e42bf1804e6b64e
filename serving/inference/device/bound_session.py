"""A session on a device whose runs bind inputs and outputs, one run at a time.

One at a time, since what a run needs of the device's memory is then what the warm-up took, and no crowd takes
more; a second run would wait for the same multiprocessors. Threads that would wait have pictures to decode:
see `serving.inference.scheduler`. ONNX Runtime gives each run a stream of its session.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.inference.device.runtime import DeviceSession


class BoundSession:
    """Runs a device's session; safe to share between threads."""

    def __init__(self, session: DeviceSession) -> None:
        """Takes over an open session, which is freed with this."""
        self._session = session
        self._alone = threading.Lock()

    def get_inputs(self) -> Sequence[Any]:
        """The graph's inputs."""
        return self._session.get_inputs()

    def get_outputs(self) -> Sequence[Any]:
        """The graph's outputs."""
        return self._session.get_outputs()

    def run(self, names: Sequence[str] | None, feed: Mapping[str, NDArray[Any]]) -> Sequence[Any]:
        """The outputs of these names on the processor, for inputs that lie there."""
        binding = self._session.io_binding()
        with self._alone:
            for name, array in feed.items():
                binding.bind_cpu_input(name, np.ascontiguousarray(array))
            for name in names or [one.name for one in self._session.get_outputs()]:
                binding.bind_output(name, "cpu")
            self._session.run_with_iobinding(binding)
            return binding.copy_outputs_to_cpu()
