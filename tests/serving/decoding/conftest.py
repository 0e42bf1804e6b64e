"""Decoders over the one template of these tests, and a picture for them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image

from registry.bundle.pictures.rule import PictureRule
from serving.decoding.decoders import Decoders
from serving.metrics import Metrics
from serving.settings import ServeSettings
from tests.serving.hostile.piece import encoded

MEGABYTE = 2**20
RULE = PictureRule(size=16)
SOUND = encoded(Image.new("RGB", (400, 300), (200, 90, 30)), "JPEG")


def sound(pool: Decoders) -> bool:
    """Whether a sound picture is decoded, and its size is that of the picture as it was sent."""
    found = pool.decode(SOUND, RULE)
    return (found.answer.width, found.answer.height, found.pixels.shape) == (400, 300, (16, 16, 3))


@pytest.fixture
def decoders(one_template: Any) -> Iterator[Callable[..., Decoders]]:
    """Makes decoders; keywords are settings."""
    made: list[Decoders] = []

    def make(metrics: Metrics | None = None, template: Any = None, **settings: Any) -> Decoders:
        given = {"threads": 1, "decode_memory": 2**31, "decode_seconds": 60.0, "records": None, **settings}
        made.append(Decoders(ServeSettings(**given), metrics or Metrics(), template or one_template))
        return made[-1]

    yield make
    for one in made:
        one.close()
