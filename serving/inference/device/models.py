"""Models on a device: loaded, warmed up, and held beside the processor before anything of them is told."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from registry.bundle.errors import GraphError
from registry.bundle.manifest.promised import promise_of
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.model_file.graph import Graph
from registry.bundle.question import ask
from serving.cores import cores
from serving.inference.device.batching import Batching, batching_of
from serving.inference.device.device import ON_PROCESSOR, Device
from serving.inference.device.grey import grey_questions
from serving.inference.device.kinds import NAME
from serving.inference.device.parity import DeviceDiffers, check_parity
from serving.inference.device.threads import fewest_threads
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to answer.

    Attributes:
        graph: it, on one thread of the processor or on a GPU.
        lone_graph: the same on several threads, for a picture that is alone; None where one has to do.
    """

    graph: Graph
    lone_graph: Graph | None = None


class Models:
    """Loads models on one device; safe to share between threads."""

    def __init__(
        self,
        device: Device = ON_PROCESSOR,
        lone_threads: int | Literal["auto"] = 1,
        batching: Batching | None = None,
        *,
        most_threads: int | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Loads nothing yet.

        Args:
            device: on what models run.
            lone_threads: threads for a picture that is alone; `auto` measures how many are worth it.
            batching: how pictures are put together.
            most_threads: how many `auto` tries at most; by default the cores.
            clock: what it measures by; seconds.
        """
        self.device = device
        self.batching = batching or Batching()
        self._lone_threads = lone_threads
        self._most_threads = most_threads or cores()
        self._clock = clock
        # By what is alike in models of one architecture: a release has one for each skin tone, and the next
        # release mostly has the same again.
        self._measured: dict[tuple[int, int, int, int], int] = {}
        self._measuring = threading.Lock()

    @classmethod
    def of(cls, settings: ServeSettings, device: Device) -> "Models":
        """Models on a device, as the settings want them."""
        return cls(device, settings.lone_threads, batching_of(settings, device))

    def load(self, content: bytes, manifest: BundleManifest) -> LoadedModel:
        """Loads the model of a bundle that was verified.

        Raises:
            GraphError: it is none that a bundle may hold, does not run here, or answers otherwise than on the
                processor.
        """
        if self.device.is_gpu:
            return LoadedModel(self._on_gpu(content, manifest))
        graph = Graph(content)
        if self._lone_threads != "auto":
            return LoadedModel(graph, Graph(content, self._lone_threads) if self._lone_threads > 1 else None)
        lone = self._measure(content, manifest, graph)
        return LoadedModel(graph, None if lone is graph else lone)

    def _on_gpu(self, content: bytes, manifest: BundleManifest) -> Graph:
        title = f"{manifest.model}, {manifest.subgroup.name}"
        on_processor = Graph(content)
        # TensorRT has no such switch among ONNX Runtime's options.
        precisions = (True, False) if self.device.kind == "cuda" else (False,)
        for tf32 in precisions:
            notes: list[str] = []
            graph = Graph(content, open_with=self.device.opener(notes.append, tf32=tf32))
            self._warm_up(graph, manifest)
            try:
                check_parity(graph, on_processor, promise_of(manifest), NAME[self.device.kind])
            except DeviceDiffers as error:
                if tf32 is precisions[-1]:
                    raise
                log.info("%s: with TensorFloat-32, %s; it runs without", title, error)
                continue
            for note in notes:
                log.warning("%s: %s", title, note)
            break
        return graph

    def _warm_up(self, graph: Graph, manifest: BundleManifest) -> None:
        """Runs every size of batch that may come, so that what a crowd needs of memory is taken here."""
        for question in grey_questions(manifest):
            for size in self.batching.sizes:
                try:
                    ask(graph, [question] * size)
                except Exception as error:
                    # ONNX Runtime's exceptions share no base of their own.
                    raise GraphError(
                        f"the model does not run on {NAME[self.device.kind]} with {size} at once ({error}); "
                        "lower DERMFED_SERVE_MAX_BATCH, raise DERMFED_SERVE_DEVICE_BYTES where it is set, or "
                        "set DERMFED_SERVE_PROVIDERS=cpu"
                    ) from error

    def _measure(self, content: bytes, manifest: BundleManifest, graph: Graph) -> Graph:
        """The model on as many threads as a lone picture is worth; the same one where that is one."""
        alike = (len(content), graph.size, graph.num_classes, graph.num_features)
        with self._measuring:  # two at once would measure each other
            if (known := self._measured.get(alike)) is not None:
                return graph if known == 1 else Graph(content, known)
            question = grey_questions(manifest)[-1]
            number, chosen = fewest_threads(
                self._most_threads,
                graph,
                lambda threads: Graph(content, threads),
                lambda one: ask(one, [question]),
                self._clock,
            )
            self._measured[alike] = number
        title = f"{manifest.model}, {manifest.subgroup.name}"
        log.info("%s: %d of %d threads for a picture that is alone", title, number, self._most_threads)
        return chosen
