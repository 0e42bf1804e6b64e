"""What processes of a test federation do wrong, on demand, and what its server heard.

Python itself loads this file in every process that has its folder on `PYTHONPATH`. In the folder that
`DERMFED_TEST_DEEDS` names, an empty file `east fit 2 crash` ends the job's process of east when it is asked
`fit` in round 2, once: the file is gone then. A folder `wire` there gets every answer that reaches the
server, as it came; a folder `trained` what every hospital masks. While there is a file `forgetful`, hospitals
do not remember over whom they let sums be unmasked; with a file `unguarded` a job may select by columns that
name patients.
"""

import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import uuid
from pathlib import Path

FOLDER = Path(os.environ.get("DERMFED_TEST_DEEDS", os.devnull))


class AfterImport(importlib.abc.MetaPathFinder):
    """Changes one module as soon as it is imported; until then nothing is."""

    def __init__(self, name, change):
        self.name, self.change = name, change

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.change(module)

        spec.loader.exec_module = exec_module
        return spec


def deed_for(read):
    """Who is killed now; its file is taken away."""
    for path in FOLDER.glob(f"{read['client']} {read['ask']} {read['round']} *"):
        path.unlink()
        return path.name.rpartition(" ")[2]
    return None


def misbehave(request_handler):
    """A node that may be killed."""
    real = request_handler.RequestHandler.answer

    def answer(self, header, body):
        if deed_for(json.loads(header)) == "crash":  # the job's process alone, as where memory runs out
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, header, body)

    request_handler.RequestHandler.answer = answer


def listen(calls):
    """A server that writes down what it hears."""
    real = calls.Channel.ask

    def ask(self, *asked):
        answer = real(self, *asked)
        if (FOLDER / "wire").is_dir():
            stem = FOLDER / "wire" / uuid.uuid4().hex
            stem.with_suffix(".body").write_bytes(
                answer[1] if isinstance(answer[1], bytes) else answer[1].read_bytes()
            )
            stem.with_suffix(".json").write_text(answer[0])
        return answer

    calls.Channel.ask = ask


def forget(cohorts):
    """A hospital that remembers no sum, while it is told so."""
    real = cohorts.entries
    cohorts.entries = lambda client: {} if (FOLDER / "forgetful").exists() else real(client)


def let_patients_be_named(selectors):
    """A hospital for which no column names a patient, while it is told so."""
    if (FOLDER / "unguarded").exists():
        selectors.IDENTIFYING = ()


def show_what_is_masked(client):
    """A hospital that leaves what it masks where a test finds it."""
    real = client.withhold

    def withhold(update, owner, *rest):
        if (FOLDER / "trained").is_dir() and update.ask == "fit":
            from safetensors.torch import save_file

            tensors = {name: tensor.contiguous() for name, tensor in update.tensors.items()}
            pictures = {"pictures": str(sum(update.num_examples.values()))}
            save_file(tensors, FOLDER / "trained" / f"{owner.id} {update.round}.safetensors", pictures)
        return real(update, owner, *rest)

    client.withhold = withhold


if FOLDER.is_dir():
    sys.meta_path.insert(0, AfterImport("training.data.settings", let_patients_be_named))
    package = "training.privacy.secagg"
    sys.meta_path.insert(0, AfterImport(f"{package}.messages", forget))
    sys.meta_path.insert(0, AfterImport(f"{package}.client", show_what_is_masked))
    sys.meta_path.insert(0, AfterImport("clients.node.request_handler", misbehave))
    sys.meta_path.insert(0, AfterImport("training.engines.calls", listen))
