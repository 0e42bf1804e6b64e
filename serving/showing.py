"""Showing pictures to a model, together, so that none of them harms another.

Where a batch fails, whatever it is about (the run, an answer that is not finite or of the wrong shape), each
of its pictures is shown alone, and fails alone.
"""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError
from registry.bundle.graph import Graph, Outputs

log = logging.getLogger("dermfed.serve")


def show(graph: Graph, pictures: Sequence[NDArray[np.uint8]]) -> list[Outputs | Exception]:
    """What the graph answers for each picture, or what was in the way of it alone."""
    if len(pictures) > 1:
        try:
            return list(rows(graph, np.stack(pictures)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it may be one picture's alone
            log.warning("%d pictures shown together failed (%s); each is shown alone", len(pictures), error)
    return [show_alone(graph, one) for one in pictures]


def show_alone(graph: Graph, pixels: NDArray[np.uint8]) -> Outputs | Exception:
    """What the graph answers for one picture, or why it does not."""
    try:
        return rows(graph, pixels[None])[0]
    except Exception as error:  # noqa: BLE001 - raised again for whoever waits for it
        return error


def rows(graph: Graph, images: NDArray[np.uint8]) -> list[Outputs]:
    """The graph's answers for `(batch, size, size, 3)`, each as a batch of one.

    Raises:
        GraphError: the graph cannot run, or its answers are not finite or not one for each picture.
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
