"""Decoders over the one template of these tests, and pictures for them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from serving.decoding.decoders import Decoders
from serving.metrics import Metrics
from serving.settings import ServeSettings


@pytest.fixture
def decoders(one_template: Any) -> Iterator[Callable[..., Decoders]]:
    """Makes decoders; keywords are settings."""
    made: list[Decoders] = []

    def make(metrics: Metrics | None = None, **settings: Any) -> Decoders:
        given = ServeSettings(**{"threads": 1, "decode_memory": 2**31, "records": None, **settings})
        made.append(Decoders(given, metrics or Metrics(), one_template))
        return made[-1]

    yield make
    for one in made:
        one.close()
