"""Trainings that processes which train together are asked for."""

import threading
from dataclasses import dataclass
from time import monotonic, sleep

from training.engines.in_process import ClientAppParts
from training.messages.message import Broadcast
from training.models import initial_model
from training.models.groups import float_state
from training.progress import unwatched

WITHOUT_STATISTICS = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
# The 18 pictures of `north` are batches of 8, 8 and 2: of the last one, one of three processes has none.
OBJECTIVES = {
    "sgd": {
        "sampling": "uniform",
        "epochs": 2,
        "batch_size": 8,
        "optimizer": {"name": "sgd", "lr": 0.05},
        "augment": {"flip": False},
    },
    "everything that sees gradients": {
        "epochs": 2,
        "batch_size": 8,
        "mu": 0.5,
        "clip_norm": 0.3,
        "label_smoothing": 0.1,
        "class_weights": "inverse-frequency",
        "optimizer": {"name": "adamw", "lr": 0.002, "weight_decay": 0.1, "state": "keep"},
    },
    "drawn": {
        "sampling": "uniform",
        "batch_size": 8,
        "mixup": 0.4,
        "augment": {"rotation": 30.0, "brightness": 0.3, "crop": [0.5, 1.0], "grey_probability": 0.5},
        "optimizer": {"name": "sgd", "lr": 0.05},
    },
    "for ever": {"epochs": 100_000, "batch_size": 8},
}
NAMES = list(OBJECTIVES)
SETTLED = 60.0  # seconds in which what must happen has happened on any machine


def job_of(make_job, federate_block, processes=1):
    blocks = [
        federate_block(objective={"optimizer": {"momentum": 0.9}, **block}) for block in OBJECTIVES.values()
    ]
    return make_job(stages=blocks, model=WITHOUT_STATISTICS, engine={"processes_per_client": processes})


def question(job, name, round_=1):
    model = initial_model(job.model, job.seed, job.data.image_size, 2, None)
    weights = {key: value.clone() for key, value in float_state(model).items()}
    return Broadcast("north", f"{NAMES.index(name)}-federate", round_, "fit", tensors=weights)


def when_it_trains(trainers, deed):
    """Do something to the second process once some of a training is done."""

    def wait():
        begun = monotonic()
        while trainers._done[0] == 0.0 and monotonic() - begun < 10 * SETTLED:
            sleep(0.01)
        deed(trainers._members[1].process.pid)

    threading.Thread(target=wait, daemon=True).start()


@dataclass(frozen=True)
class Failing:
    """Parts of which one process fails, with one of our errors or another."""

    parts: ClientAppParts
    rank: int
    error: Exception

    @property
    def job(self):
        return self.parts.job

    def build(self, watch=unwatched, share=None):
        app = self.parts.build(watch, share)
        if share.rank == self.rank:
            app.fit = self.fail
        return app

    def fail(self, question, steps):
        raise self.error
