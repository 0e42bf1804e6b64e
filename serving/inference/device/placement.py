"""Which nodes of a graph stay on the processor though its session is on another device."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from serving.inference.device.runtime import DeviceSession

RECORD: Final[Mapping[str, str]] = {"session.record_ep_graph_assignment_info": "1"}
"""The session's configuration under which ONNX Runtime remembers where it put nodes."""


def left_behind(session: DeviceSession, provider: str) -> Counter[str]:
    """How many nodes of each operator another provider than this one runs; empty where that is not known."""
    try:
        parts = session.get_provider_graph_assignment_info()
    except (AttributeError, RuntimeError):  # older versions of ONNX Runtime do not tell
        return Counter()
    return Counter(node.op_type for part in parts if part.ep_name != provider for node in part.get_nodes())


def told(nodes: Counter[str]) -> str:
    """The nodes in words, such as `2 Resize, 1 TopK`."""
    return ", ".join(f"{count} {operator}" for operator, count in nodes.most_common())
