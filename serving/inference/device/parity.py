"""Whether a device answers as the processor does, on which the model was tested and calibrated."""

from typing import Final

import numpy as np

from registry.bundle.errors import GraphError
from registry.bundle.model_file.graph import MAP, OUTPUTS, Graph
from registry.bundle.model_file.probe_answers import TOLERANCE
from registry.bundle.model_file.probe_inputs import drawn_batches
from registry.bundle.model_file.promise import Promise

SCALED: Final = frozenset({"logits", "embedding", MAP})
"""Outputs whose tolerance is a share of the largest value among them, if that is more than 1."""


class DeviceDiffers(GraphError):  # noqa: N818 - a state of the device
    """A device answers otherwise than the processor."""


def check_parity(on_device: Graph, on_processor: Graph, promise: Promise, device: str) -> None:
    """Asks both about the drawn pictures that the registry probes models with.

    The tolerance is the registry's, too: what one model's answers may differ by between a picture alone and
    the same among others.

    Args:
        on_device: the model on the device.
        on_processor: the same model on the processor.
        promise: what its manifest says of it.
        device: what messages call the device.

    Raises:
        DeviceDiffers: an answer differs by more, or is of another shape.
        GraphError: there is none, or it is not finite.
    """
    for batch in drawn_batches(promise):
        for shown in (batch, *batch.alone()):
            ours, theirs = shown.ask(on_device), shown.ask(on_processor)
            for name in OUTPUTS if theirs.map is None else (*OUTPUTS, MAP):
                found, expected = getattr(ours, name), getattr(theirs, name)
                if found.shape != expected.shape:
                    raise DeviceDiffers(
                        f"shown {', '.join(dict.fromkeys(shown.names))}, the model answers {name} of shape "
                        f"{found.shape} on {device} and {expected.shape} on the processor; set "
                        "DERMFED_SERVE_PROVIDERS=cpu"
                    )
                scale = max(1.0, float(np.abs(expected).max(initial=0.0))) if name in SCALED else 1.0
                difference = float(np.abs(found - expected).max(initial=0.0))
                if difference > TOLERANCE * scale:
                    raise DeviceDiffers(
                        f"shown {', '.join(dict.fromkeys(shown.names))}, the model answers {name} on "
                        f"{device} that differ by up to {difference:g} from the processor's; allowed is "
                        f"{TOLERANCE * scale:g}. Update the GPU's driver and onnxruntime-gpu, or set "
                        "DERMFED_SERVE_PROVIDERS=cpu"
                    )
