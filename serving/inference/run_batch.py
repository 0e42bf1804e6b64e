"""Running a model on a batch of pictures, so that one bad picture does not fail the others.

Where a batch fails, whatever the cause (the run, outputs that are not finite or of the wrong shape), each of
its pictures is run alone, and fails alone.
"""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError
from registry.bundle.model_file.graph import Graph, Outputs

log = logging.getLogger("dermfed.serve")


def run_batch(graph: Graph, pictures: Sequence[NDArray[np.uint8]]) -> list[Outputs | Exception]:
    """Runs the graph on a batch of pictures; each gets its outputs, or the error that it raises alone."""
    if len(pictures) > 1:
        try:
            return list(run_and_split(graph, np.stack(pictures)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it may be one picture's alone
            log.warning("%d pictures shown together failed (%s); each is shown alone", len(pictures), error)
    return [run_single(graph, one) for one in pictures]


def run_single(graph: Graph, pixels: NDArray[np.uint8]) -> Outputs | Exception:
    """Runs the graph on one picture; returns its outputs, or the error."""
    try:
        return run_and_split(graph, pixels[None])[0]
    except Exception as error:  # noqa: BLE001 - raised again for whoever waits for it
        return error


def run_and_split(graph: Graph, images: NDArray[np.uint8]) -> list[Outputs]:
    """Runs the graph on `(batch, size, size, 3)`, and splits its outputs into batches of one.

    Raises:
        GraphError: the graph cannot run, or its outputs are not finite or not one for each picture.
    """
    outputs = graph.run(images)
    expected = {
        "probabilities": (len(images), graph.num_classes),
        "logits": (len(images), graph.num_classes),
        "embedding": (len(images), graph.num_features),
    }
    for name, shape in expected.items():
        if (found := getattr(outputs, name).shape) != shape:
            raise GraphError(
                f"the graph answered {name} of shape {found} for {len(images)} pictures, not {shape}; "
                "the model is broken: export it again"
            )
    return [
        Outputs(*(part[row : row + 1] for part in (outputs.probabilities, outputs.logits, outputs.embedding)))
        for row in range(len(images))
    ]
