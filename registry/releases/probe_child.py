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
    from registry.bundle.model import Promise


def main() -> None:
    """Probes the model on standard input."""
    limits, promised = (json.loads(text) for text in sys.argv[1:3])
    limit(limits)
    answer: dict[str, Any] = {"found": None, "refused": None, "text": ""}
    try:
        _probe(promised, answer)
    except MemoryError:
        answer.update(refused="memory", text="memory ran out")
    except OSError as error:
        answer.update(refused="file", text=str(error))
    except ImportError as error:
        answer.update(refused="import", text=str(error))
    print(json.dumps(answer), flush=True)


def _probe(promised: dict[str, Any], answer: dict[str, Any]) -> None:
    content = sys.stdin.buffer.read()
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != promised["sha256"]:
        answer.update(refused="file", text="it was changed while it was looked at; try again")
        return
    from registry.bundle.errors import GraphError
    from registry.bundle.model import Promise
    from registry.bundle.model_check import check_header

    try:
        check_header(content)
    except GraphError as error:
        answer.update(refused="header", text=str(error))
        return
    # A file that is none of ours is not worth loading ONNX Runtime; later no file can be opened.
    import onnxruntime  # noqa: F401

    from registry.bundle.model import Graph
    from registry.bundle.model_check import check_answers

    promise = Promise(**{name: value for name, value in promised.items() if name != "sha256"})
    tempfile.tempdir = str(Path.cwd())  # empty, and looking for another would be to write there
    # From here on no file is opened and no connection made.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    stage = "load"
    try:
        graph = Graph(content)
        answer["found"] = {
            "size": graph.size,
            "takes_cases": graph.takes_cases,
            "facts": graph.num_facts,
            "classes": graph.num_classes,
            "features": graph.num_features,
        }
        if answer["found"] == _wanted(promise, graph.num_features):
            stage = "answers"
            check_answers(graph, promise)
    except GraphError as error:
        text = str(error)
        lacks = any(word in text for word in ("bad_alloc", "bad allocation", "Failed to allocate"))
        answer.update(refused="memory" if lacks else stage, text=text)


def _wanted(promise: "Promise", features: int) -> dict[str, Any]:
    return {
        "size": promise.size,
        "takes_cases": promise.slots is not None,
        "facts": len(promise.facts),
        "classes": promise.classes,
        "features": features if promise.features is None else promise.features,
    }
