"""An ONNX Runtime that pretends to have a GPU: the processor computes, and goes wrong as it is told."""

import threading
import time
import weakref
from collections import Counter
from types import SimpleNamespace

import numpy as np

from registry.bundle.errors import GraphError
from registry.bundle.model_file.session import PROCESSOR, open_session
from serving.inference.device.kinds import PROVIDER


class Pretended:
    """The runtime.

    Attributes:
        known: the providers that it was built with.
        falls_back: whether its sessions are on the processor, without a word.
        refuses: what opening a session raises; None where it does not.
        error: what is added to each answer.
        tf32_error: what is added where TensorFloat-32 is allowed.
        fits: how many pictures fit into the GPU's memory.
        left: operators that stay on the processor.
        asked: the providers and the configuration of every session that was asked for.
        ran: the size of every batch that ran on the GPU, in order.
        lets_others_in: whether a run lets other threads go on before it ends.
    """

    def __init__(
        self, *kinds, falls_back=False, refuses=None, error=0.0, tf32_error=0.0, fits=10**6, left=()
    ):
        self.known = [*(PROVIDER[kind] for kind in kinds), PROCESSOR]
        self.falls_back, self.refuses = falls_back, refuses
        self.error, self.tf32_error, self.fits, self.left = error, tf32_error, fits, left
        self.asked, self.ran, self.sessions = [], [], weakref.WeakSet()
        self.at_once, self.most_at_once, self.lets_others_in = 0, 0, False
        self.counting = threading.Lock()

    def available(self):
        return list(self.known)

    def open(self, content, threads, providers, entries):
        self.asked.append((providers, dict(entries)))
        if self.refuses is not None:
            raise GraphError(self.refuses)
        session = Session(self, open_session(content, threads), providers)
        self.sessions.add(session)
        return session


class Session:
    """A session on the pretended GPU."""

    def __init__(self, runtime, processor, providers):
        self.runtime, self.processor = runtime, processor
        self.names = [PROCESSOR] if runtime.falls_back else [name for name, _ in providers]
        self.tf32 = any(given.get("use_tf32") == "1" for _, given in providers)
        self.bound = Counter()

    def get_inputs(self):
        return self.processor.get_inputs()

    def get_outputs(self):
        return self.processor.get_outputs()

    def get_providers(self):
        return list(self.names)

    def get_provider_graph_assignment_info(self):
        parts = {self.names[0]: ["Conv"], PROCESSOR: list(self.runtime.left)}
        return [
            SimpleNamespace(
                ep_name=name,
                get_nodes=lambda nodes=nodes: [SimpleNamespace(op_type=node) for node in nodes],
            )
            for name, nodes in parts.items()
        ]

    def run(self, names, feed):
        raise AssertionError("a GPU's session runs on what is bound")

    def io_binding(self):
        return Binding(self)

    def run_with_iobinding(self, binding):
        runtime, size = self.runtime, len(next(iter(binding.feed.values())))
        with runtime.counting:
            runtime.at_once += 1
            runtime.most_at_once = max(runtime.most_at_once, runtime.at_once)
            runtime.ran.append(size)
        try:
            if size > runtime.fits:
                raise RuntimeError("Failed to allocate memory for requested buffer of size 4096")
            if runtime.lets_others_in:
                time.sleep(0.001)
            off = runtime.error + (runtime.tf32_error if self.tf32 else 0.0)
            answers = self.processor.run(binding.outputs, binding.feed)
            binding.answers = [(answer + off).astype(np.float32) for answer in answers]
        finally:
            with runtime.counting:
                runtime.at_once -= 1


class Binding:
    """Inputs and outputs of one run."""

    def __init__(self, session):
        self.session, self.feed, self.outputs, self.answers = session, {}, [], None

    def bind_cpu_input(self, name, array):
        assert array.flags.c_contiguous
        self.session.bound[name] += 1
        self.feed[name] = array

    def bind_output(self, name, device_type="cpu"):
        assert device_type == "cpu"
        self.outputs.append(name)

    def copy_outputs_to_cpu(self):
        assert self.answers is not None, "nothing has run"
        return self.answers
