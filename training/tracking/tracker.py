"""What a tracker is: something elsewhere that draws curves."""

from collections.abc import Mapping
from typing import Protocol


class Tracker(Protocol):
    """Takes the points of a run's curves, each once."""

    name: str

    def open(self) -> Mapping[str, int]:
        """Get ready; the last round that it knows of each stage, from earlier stays in the run."""

    def log(self, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        """Take the points of one round, so that they can be seen."""

    def close(self, *, finished: bool) -> None:
        """The end of this stay in the run, or of the run itself."""
