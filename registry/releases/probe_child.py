"""The process that a model is probed in: it limits itself, loads the model, asks it, and says how that went.

It is given the model as its standard input, and two arguments of JSON: its limits, and the model's digest
with what its manifest promises. It answers one line of JSON, see `Answer` in `registry.releases.probe`. Where
it is killed or crashes it says nothing; the parent sees how it ended.

Nothing of a registry is imported here: the process has to start quickly.
"""

import hashlib
import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.confined import limit

if TYPE_CHECKING:  # every other import waits until the limits hold
    from registry.bundle.model import Graph, Promise


def main() -> None:
    """Probes the model on standard input."""
    limits, promised = (json.loads(text) for text in sys.argv[1:3])
    limit(limits)
    try:
        refused, text = _probe(promised)
    except MemoryError:
        refused, text = "memory", "memory ran out"
    except OSError as error:
        refused, text = "file", str(error)
    except ImportError as error:
        refused, text = "import", str(error)
    print(json.dumps({"refused": refused, "text": text}), flush=True)


def _probe(promised: dict[str, Any]) -> tuple[str | None, str]:
    content = sys.stdin.buffer.read()
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != promised.pop("sha256"):
        return "file", "it was changed while it was looked at; try again"
    from registry.bundle.errors import GraphError
    from registry.bundle.model import Promise
    from registry.bundle.model_check import check_header

    try:
        check_header(content)
    except GraphError as error:
        return "header", str(error)
    # A file that is none of ours is not worth loading ONNX Runtime; later no file can be opened.
    import onnxruntime  # noqa: F401

    from registry.bundle.model import Graph
    from registry.bundle.model_check import check_answers

    promise = Promise(**promised)
    tempfile.tempdir = str(Path.cwd())  # empty, and looking for another would be to write there
    # From here on no file is opened and no connection made.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    stage = "load"
    try:
        graph = Graph(content)
        if text := _misfit(graph, promise):
            return "takes", text
        stage = "answers"
        check_answers(graph, promise)
    except GraphError as error:
        text = str(error)
        lacks = any(word in text for word in ("bad_alloc", "bad allocation", "Failed to allocate"))
        return "memory" if lacks else stage, text
    return None, ""


def _misfit(graph: "Graph", promise: "Promise") -> str:
    """What the model takes or answers that its manifest does not promise; empty where they agree."""
    cases = "cases with {} facts", "single pictures"
    found = cases[0].format(graph.num_facts) if graph.takes_cases else cases[1]
    said = cases[1] if promise.slots is None else cases[0].format(len(promise.facts))
    for what, here, there in (
        ("pictures of {} pixels", graph.size, promise.size),
        ("{}", found, said),
        ("{} classes", graph.num_classes, promise.classes),
        ("an embedding of {} numbers", graph.num_features, promise.features),
    ):
        if there is not None and here != there:
            return f"it is for {what.format(here)}, and its manifest for {what.format(there)}"
    return ""
