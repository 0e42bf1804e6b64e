"""The TensorBoard tracker: event files in the run's folder, readable by their owner alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from training.jobs.tracking.figures import WHO

TEST_FIGURE = "accuracy"  # and the one that tests have


class TensorBoard:
    """Writes event files; a `training.jobs.tracking.follower.Tracker`.

    Args:
        folder: where; `tensorboard --logdir` shows it.
        run: called when it is opened, to remove what is there of another run.
    """

    name = "tensorboard"

    def __init__(self, folder: Path, run: Callable[[], str]) -> None:
        self._folder = folder
        self._run = run
        self._writers: dict[str, Any] = {}

    def open(self) -> Mapping[str, int]:
        """The last round in each stage's event files."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self._run()
        done: dict[str, int] = {}
        for stage in sorted(path for path in self._folder.glob("*") if path.is_dir()):
            events = EventAccumulator(str(stage), size_guidance={"scalars": 0}).Reload()
            for tag in {WHO, TEST_FIGURE} & set(events.Tags()["scalars"]):
                done[stage.name] = max(
                    [done.get(stage.name, 0), *(each.step for each in events.Scalars(tag))]
                )
        return done

    def log(self, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        """One point of each curve, on disk before it returns."""
        from torch.utils.tensorboard.writer import SummaryWriter

        if stage not in self._writers:
            self._writers[stage] = SummaryWriter(str(self._folder / stage))
        writer = self._writers[stage]
        # The curve by which `open` finds what is there comes last, so that a round counts when it is whole.
        for name in sorted(figures, key=lambda name: name in (WHO, TEST_FIGURE)):
            writer.add_scalar(name, figures[name], round_)
        writer.flush()

    def close(self, *, finished: bool) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
