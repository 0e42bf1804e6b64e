"""A whole exported graph on a client's examples, as the service runs it."""

from personalization.stages.calibration_features import over_all
from registry.bundle.model import Graph, Outputs
from training.data.dataset import Examples
from training.models.export import answer, graph_inputs


def answers(graph: Graph, examples: Examples) -> Outputs:
    """Its outputs for all examples."""
    return over_all(examples, lambda of, positions: answer(graph, graph_inputs(of, positions)))
