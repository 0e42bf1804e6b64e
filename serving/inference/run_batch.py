"""Running a model on a batch of questions, so that a bad one does not fail the others.

Where a batch fails, whatever the cause (the run, outputs that are not finite or of the wrong shape), each of
its questions is run alone, and fails alone.
"""

import logging
from collections.abc import Sequence

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
        Outputs(*(part[row : row + 1] for part in (outputs.probabilities, outputs.logits, outputs.embedding)))
        for row in range(len(questions))
    ]
