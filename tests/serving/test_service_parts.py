"""The parts of a service end with it, also where one of them does not begin."""

import anyio
import pytest

from serving.settings import ServeSettings
from serving.state import ServiceState


def test_where_the_registry_cannot_be_opened_nothing_is_left_behind():
    service = ServiceState(ServeSettings(records=None))

    def no_registry():
        raise OSError("there is none")

    async def run():
        async with service.start(no_registry):
            raise AssertionError("it began")

    with pytest.raises(OSError, match="there is none"):
        anyio.run(run)
    assert service.decoders._closed


@pytest.mark.parametrize(("settings", "reported"), [({}, True), ({"threads": 2}, False)])
def test_a_quota_that_changes_while_the_service_runs_is_reported(monkeypatch, settings, reported):
    monkeypatch.setattr("serving.state.cores", lambda: 4)
    service = ServiceState(ServeSettings(records=None, **settings))
    assert service._changed_cores() == []
    monkeypatch.setattr("serving.state.cores", lambda: 2)
    assert [issue.startswith("the service may use 2 cores, and 4") for issue in service._changed_cores()] == (
        [True] * reported
    )
