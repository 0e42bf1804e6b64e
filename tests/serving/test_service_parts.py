"""The parts of a service end with it, also where one of them does not begin."""

import anyio
import pytest

from serving.settings import ServeSettings
from serving.state import ServiceState


def test_where_the_registry_cannot_be_opened_nothing_is_left_behind(tmp_path):
    service = ServiceState(ServeSettings(records=tmp_path / "records"))

    def no_registry():
        raise OSError("there is none")

    async def run():
        async with service.start(no_registry):
            raise AssertionError("it began")

    with pytest.raises(OSError, match="there is none"):
        anyio.run(run)
    assert service.decoders._closed
    retention = service.decision_log._retention
    assert retention is not None
    assert not retention._thread.is_alive()
