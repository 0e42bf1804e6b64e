"""A toy aggregator, and a toy adapter of coloured squares."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from PIL import Image
from pydantic import Field

from clients.data.adapters.adapter import Adapter
from clients.data.manifest import Manifest, Row
from training.aggregators import Aggregator
from training.aggregators.base import Mixture, Report, ServerState


class MedianVoice(Aggregator):
    """The model of the client with the median number of pictures, and `echo` of the last one."""

    name: Literal["median-voice"] = "median-voice"
    echo: float = Field(0.0, ge=0, lt=1)

    def weigh(self, reports: Sequence[Report], state: ServerState) -> tuple[Mixture, ServerState]:
        """All weight on one client."""
        ranked = sorted(reports, key=lambda report: report.total)
        chosen = ranked[len(ranked) // 2].client
        return Mixture({chosen: 1 - self.echo}, previous=self.echo), state


class Squares(Adapter):
    """Red squares are malignant, green ones benign."""

    name: Literal["squares"] = "squares"
    makes_pictures: ClassVar[bool] = True
    count: int = Field(60, ge=6)

    def manifest(self, folder: Path) -> Manifest:
        """Draws the squares, and says what they are."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for number in range(self.count):
            red = number % 3 == 0
            shade = 100 + number
            Image.new("RGB", (16, 16), (shade, 40, 40) if red else (40, shade, 40)).save(
                folder / f"{number}.png"
            )
            rows.append(Row(image=f"{number}.png", label="malignant" if red else "benign"))
        return Manifest.of(rows, folder)
