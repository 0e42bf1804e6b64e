"""Whether a model's answers to drawn pictures are ones that it could give of a patient.

Each answer is finite; its probabilities lie in [0, 1] and sum to 1; it is the same, to the bit, when asked
again; and it is the same for a picture alone and among others, but for rounding. Where there is a map, all of
that holds for it, and it is zero in empty slots.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError
from registry.bundle.model_file.graph import MAP, OUTPUTS, Graph, Outputs
from registry.bundle.model_file.probe_inputs import Batch, drawn_batches
from registry.bundle.model_file.promise import Promise

TOLERANCE: Final = 1e-3
"""How far probabilities may be from a sum of 1 and, alone and among others, from each other.

Of logits and embedding it is a share of the largest absolute value among them, or of 1 if that is larger.
"""


def check_answers(graph: Graph, promise: Promise) -> None:
    """Asks a graph about all that is drawn for it.

    Raises:
        GraphError: saying what it was shown, what is wrong with its answer, and what to do.
    """
    for batch in drawn_batches(promise):
        answers = _ask(graph, batch)
        _check_probabilities(answers, batch)
        _check_again(answers, _ask(graph, batch), batch)
        _check_map(answers, graph, batch)
        for row, alone in enumerate(batch.alone()):
            _check_alone(answers, _ask(graph, alone), row, alone)


def _ask(graph: Graph, batch: Batch) -> Outputs:
    try:
        answers = batch.ask(graph)
    except GraphError as error:
        raise GraphError(f"shown {_shown(batch)}, {error}") from error
    except Exception as error:
        # ONNX Runtime's exceptions share no base of their own.
        raise GraphError(
            f"shown {_shown(batch)}, the graph fails ({error}); export the model again"
        ) from error
    widths = {
        "probabilities": graph.num_classes,
        "logits": graph.num_classes,
        "embedding": graph.num_features,
    }
    for name, width in widths.items():
        if (shape := getattr(answers, name).shape) != (len(batch.names), width):
            raise GraphError(
                f"shown {_shown(batch)}, the graph answers {name} of shape {shape}; it says that they are "
                f"{(len(batch.names), width)}: export the model again"
            )
    return answers


def _check_probabilities(answers: Outputs, batch: Batch) -> None:
    for name, row in zip(batch.names, answers.probabilities, strict=True):
        total = float(row.sum(dtype=np.float64))
        if row.min() < 0 or row.max() > 1 + TOLERANCE or abs(total - 1) > TOLERANCE:
            raise GraphError(
                f"shown {name}, the graph answers probabilities from {row.min():g} to {row.max():g} that sum "
                f"to {total:g}; they lie between 0 and 1 and sum to 1: export the model with its softmax"
            )


def _check_again(first: Outputs, second: Outputs, batch: Batch) -> None:
    for name in _told(first):
        before, after = getattr(first, name), getattr(second, name)
        if not np.array_equal(before, after):
            raise GraphError(
                f"shown {_shown(batch)} twice, the graph answers {name} that differ by up to "
                f"{_largest(before - after):g}; the same pictures get the same answer: export the model in "
                "evaluation mode (`model.eval()`), without dropout and noise"
            )


def _check_map(answers: Outputs, graph: Graph, batch: Batch) -> None:
    """The map is of the shape that the graph says, and nothing where there is no picture."""
    if answers.map is None or graph.map_shape is None:
        return
    of_each = (len(batch.names),) if batch.kinds is None else batch.kinds.shape
    expected = (*of_each, graph.num_classes, *graph.map_shape)
    if answers.map.shape != expected:
        raise GraphError(
            f"shown {_shown(batch)}, the graph answers a map of shape {answers.map.shape}; it says that it "
            f"is {expected}: export the model again"
        )
    if batch.kinds is not None and np.any(answers.map[batch.kinds < 0]):
        raise GraphError(
            f"shown {_shown(batch)}, the graph answers a map of a slot without a picture; it is zero there: "
            "export the model again"
        )


def _told(answers: Outputs) -> tuple[str, ...]:
    return OUTPUTS if answers.map is None else (*OUTPUTS, MAP)


def _check_alone(among: Outputs, alone: Outputs, row: int, batch: Batch) -> None:
    for name in _told(among):
        before, after = getattr(among, name)[row], getattr(alone, name)[0]
        if name == MAP and batch.kinds is not None:
            before = before[: batch.kinds.shape[1]]  # empty slots stand last, and are not there alone
        allowed = TOLERANCE if name == "probabilities" else TOLERANCE * max(1.0, _largest(before))
        if (difference := _largest(before - after)) > allowed:
            raise GraphError(
                f"shown {_shown(batch)} alone and among others, the graph answers {name} that differ by up "
                f"to {difference:g}; allowed is {allowed:g}: an answer does not depend on what else is in a "
                "batch or in empty slots. Export the model in evaluation mode (`model.eval()`)"
            )


def _largest(values: NDArray[np.float32]) -> float:
    return float(np.abs(values).max(initial=0.0))


def _shown(batch: Batch) -> str:
    return ", ".join(dict.fromkeys(batch.names))
