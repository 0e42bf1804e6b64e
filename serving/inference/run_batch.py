"""Running a model on a batch of questions, so that a bad one does not fail the others.

Where a batch fails, whatever the cause (the run, outputs that are not finite or of the wrong shape), each of
its questions is run alone, and fails alone.
"""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError
from registry.bundle.model_file.graph import Graph, Outputs
from registry.bundle.question import Question, ask

log = logging.getLogger("dermfed.serve")


def run_batch(graph: Graph, questions: Sequence[Question]) -> list[Outputs | Exception]:
    """Runs the graph on a batch of questions; each gets its outputs, or the error that it raises alone."""
    if len(questions) > 1:
        try:
            return list(run_and_split(graph, questions))
        except Exception as error:  # noqa: BLE001 - whatever it is, it may be one question's alone
            log.warning("%d pictures shown together failed (%s); each is shown alone", len(questions), error)
    return [run_single(graph, one) for one in questions]


def run_single(graph: Graph, question: Question) -> Outputs | Exception:
    """Runs the graph on one question; returns its outputs, or the error."""
    try:
        return run_and_split(graph, [question])[0]
    except Exception as error:  # noqa: BLE001 - raised again for whoever waits for it
        return error


def run_and_split(graph: Graph, questions: Sequence[Question]) -> list[Outputs]:
    """Runs the graph on a batch of questions, and splits its outputs into batches of one.

    A map goes to whoever asked for it, and to nobody else; of a case without the slots that it has not.

    Raises:
        GraphError: the graph cannot run, or its outputs are not finite or not one for each question.
    """
    outputs = ask(graph, questions)
    expected = {
        "probabilities": (len(questions), graph.num_classes),
        "logits": (len(questions), graph.num_classes),
        "embedding": (len(questions), graph.num_features),
    }
    for name, shape in expected.items():
        if (found := getattr(outputs, name).shape) != shape:
            raise GraphError(
                f"the graph answered {name} of shape {found} for {len(questions)} pictures, not {shape}; "
                "the model is broken: export it again"
            )
    return [
        Outputs(
            outputs.probabilities[row : row + 1],
            outputs.logits[row : row + 1],
            outputs.embedding[row : row + 1],
            _map_of(question, outputs, row, graph),
        )
        for row, question in enumerate(questions)
    ]


def _map_of(question: Question, outputs: Outputs, row: int, graph: Graph) -> NDArray[np.float32] | None:
    """The map of one question, as a batch of one.

    Raises:
        GraphError: the map is not of the shape that the graph says.
    """
    if outputs.map is None or graph.map_shape is None or not question.with_map:
        return None
    found = outputs.map[row : row + 1]
    pictures = () if question.given is None else (len(question.images),)
    found = found if question.given is None else found[:, : len(question.images)]
    expected = (1, *pictures, graph.num_classes, *graph.map_shape)
    if found.shape != expected:
        raise GraphError(
            f"the graph answered a map of shape {found.shape} for one of {expected}; the model is broken: "
            "export it again"
        )
    return found
