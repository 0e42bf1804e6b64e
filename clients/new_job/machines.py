"""Where a job runs: the network, the size of pictures, the engine and the stages that suit the machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from training.data.settings import SplitConfig

Machine = Literal["try-out", "processor", "gpu"]
RECIPES: Mapping[Machine, str] = {"processor": "frozen@hospital", "gpu": "finetuned@hospital"}
SENSITIVITY = "sensitivity"  # of the stage `calibrate`


@dataclass(frozen=True)
class Work:
    """The blocks of a job that depend on the machine.

    Attributes:
        recipe: the built-in job that they are of; None for a try-out.
        image_size: pixels on both sides.
        split: the shares of the splits.
        model: the job's `model`.
        engine: the job's `engine`.
        federate: the stage that trains.
        calibrate: the stage that calibrates.
    """

    recipe: str | None
    image_size: int
    split: SplitConfig
    model: Mapping[str, Any]
    engine: Mapping[str, Any]
    federate: Mapping[str, Any]
    calibrate: Mapping[str, Any]

    @property
    def package(self) -> str | None:
        """The package that brings the encoder's weights; None where they are drawn."""
        weights = str(self.model.get("weights", ""))
        return weights.removeprefix("package:") if weights.startswith("package:") else None


TRY_OUT = Work(
    recipe=None,
    image_size=64,
    split=SplitConfig(),
    model={"name": "resnet18", "weights": "none", "options": {"channels": [8, 16, 32, 64]}},
    engine={"name": "in-process", "workers": 1, "threads_per_client": 1},
    federate={
        "stage": "federate",
        "rounds": 4,
        "objective": {
            "name": "supervised",
            "epochs": 1,
            "batch_size": 32,
            "optimizer": {"name": "adam", "lr": 2.0e-3},
        },
        "aggregator": {"name": "fedavg"},
    },
    calibrate={"stage": "calibrate", "coverage": 0.9, SENSITIVITY: 0.95},
)


def work_on(machine: Machine) -> Work:
    """What suits a machine: a small network for a try-out, else the recipe for use."""
    if machine == "try-out":
        return TRY_OUT
    from training.jobs.job_file import read_plain  # torch, which takes seconds
    from training.jobs.recipes import recipe_path

    recipe = RECIPES[machine]
    plain = read_plain(recipe_path(recipe))
    stages = {stage["stage"]: stage for stage in plain["stages"]}
    return Work(
        recipe=recipe,
        image_size=plain["data"]["image_size"],
        split=SplitConfig.model_validate(plain["data"]["split"]),
        model=plain["model"],
        engine=plain["engine"],
        federate=stages["federate"],
        calibrate=stages["calibrate"],
    )
