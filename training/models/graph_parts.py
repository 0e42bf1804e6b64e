"""An exported graph in two parts: what the encoder makes of a picture, and what follows from that.

The first part is the same for every temperature, and whatever else is given of a case: it runs once for a
picture. Together the parts compute what the whole graph does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.utils import Extractor

from registry.bundle.model import CONTEXT, INPUT, KINDS, OUTPUTS, Outputs, open_session
from training.data.dataset import Examples
from training.models.export import FEATURES, graph_inputs

PROBABILITIES, LOGITS, EMBEDDING = OUTPUTS


@dataclass(frozen=True)
class GraphParts:
    """Two ONNX files.

    Attributes:
        encoder: from uint8 pictures to features.
        head: from features, with kinds and facts of cases, to the outputs of the whole graph.
    """

    encoder: bytes
    head: bytes


def split_graph(graph: bytes) -> GraphParts:
    """A graph cut where its encoder ends."""
    model = onnx.load_from_string(graph)
    inputs = [one.name for one in model.graph.input]
    extractor = Extractor(model)
    if KINDS in inputs:
        encoder = extractor.extract_model([INPUT, KINDS], [FEATURES])
        head = extractor.extract_model([FEATURES, *inputs[1:]], list(OUTPUTS))
    else:
        encoder = extractor.extract_model([INPUT], [EMBEDDING])
        head = extractor.extract_model([EMBEDDING], [PROBABILITIES, LOGITS])
    return GraphParts(encoder.SerializeToString(), head.SerializeToString())


class EncoderPart:
    """The first part, ready to run."""

    def __init__(self, content: bytes, threads: int) -> None:
        """Loads it.

        Args:
            content: `GraphParts.encoder`.
            threads: within one operator.
        """
        self._session = open_session(content, threads)
        self._of_cases = any(one.name == KINDS for one in self._session.get_inputs())
        self.num_features = int(self._session.get_outputs()[0].shape[-1])

    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features `(batch, features)` of pictures `(batch, size, size, 3)`."""
        feed: dict[str, NDArray[Any]] = {INPUT: images}
        if self._of_cases:
            feed = {INPUT: images[:, None], KINDS: np.zeros((len(images), 1), dtype=np.int64)}
        (found,) = self._session.run(None, feed)
        features: NDArray[np.float32] = found.reshape(len(images), self.num_features)
        return features


class HeadPart:
    """The second part, ready to run."""

    def __init__(self, content: bytes, threads: int) -> None:
        """Loads it.

        Args:
            content: `GraphParts.head`.
            threads: within one operator.
        """
        self._session = open_session(content, threads)
        first, *_ = self._session.get_inputs()
        self._takes = [one.name for one in self._session.get_inputs()]
        self.num_features = int(first.shape[-1])

    def run(self, examples: Examples, positions: NDArray[np.int64]) -> Outputs:
        """The whole graph's outputs for examples whose images are features `(pictures, features)`."""
        given = graph_inputs(examples, positions)
        feed = dict(zip((FEATURES, KINDS, CONTEXT) if len(given) > 1 else (EMBEDDING,), given, strict=True))
        answers = self._session.run(None, {name: feed[name] for name in self._takes})
        named = dict(zip((one.name for one in self._session.get_outputs()), answers, strict=True))
        return Outputs(named[PROBABILITIES], named[LOGITS], named.get(EMBEDDING, given[0]))
