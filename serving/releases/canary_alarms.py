"""Whether a canary may answer, as the outcomes of patients tell: the service looks, and writes nothing.

A broken promise of a version that answers through the canary alone ends its share here at once; the event is
for `dermfed-registry canary check` to write. Where outcomes are kept and cannot be read, nobody would see an
alarm, and the canary waits.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from registry.bundle.plain_text import shown
from registry.errors import RegistryError
from registry.outcomes.store import OutcomeStore
from registry.records import Canary, Release
from registry.releases.canary import own_alarms
from serving.releases.loading import RegistrySource

log = logging.getLogger("dermfed.serve")

LOOK_SECONDS: Final = 60.0
"""How often outcomes are looked at while a canary runs."""

AGAIN_SECONDS: Final = 5.0
"""How soon, where they could not be read."""

BLIND_SECONDS: Final = 300.0
"""How long a canary answers without a look that succeeded."""

Alarms = Callable[[str, OutcomeStore], Mapping[int, Sequence[str]]]


class CanaryAlarms:
    """The alarms of canaries, as they were at the last look; for one thread."""

    def __init__(self, source: RegistrySource, outcomes_url: str | None) -> None:
        """Looks at nothing yet.

        Args:
            source: the registry; one without `alarms_in_field` tells of no alarm.
            outcomes_url: the database of outcomes; None where none are kept, and there is nothing to see.
        """
        self._alarms: Alarms | None = getattr(source, "alarms_in_field", None)
        self._url = outcomes_url
        self._store: OutcomeStore | None = None
        self._looked: dict[int, float] = {}  # when a look at a canary succeeded, by its event
        self._tried: dict[int, float] = {}
        self._found: dict[int, tuple[str, ...]] = {}
        self._unread: dict[int, str] = {}

    def close(self) -> None:
        """Closes the database."""
        if self._store is not None:
            self._store.close()

    def issue(self, model: str, canary: Canary, running: Release | None) -> str:
        """Why a canary may not answer, a sentence; empty where it may. May look, and block."""
        if self._alarms is None or self._url is None:
            return ""
        event, now = canary.event, time.monotonic()
        wait = AGAIN_SECONDS if event in self._unread else LOOK_SECONDS
        if now - self._tried.get(event, float("-inf")) >= wait:
            self._tried[event] = now
            self._look(model, canary, running, self._alarms, self._url)
        if said := self._found.get(event):
            return (
                f"it answers nobody any more: {'; '.join(said)}. Write its end down with `dermfed-registry "
                f"canary end {model} --alias {canary.alias}`"
            )
        if time.monotonic() - self._looked.get(event, float("-inf")) > BLIND_SECONDS:
            why = self._unread.get(event)
            return f"it waits, since nobody would see an alarm: outcomes cannot be read ({why})"
        return ""

    def forget(self, running: Sequence[Canary]) -> None:
        """Forgets all canaries but these."""
        events = {one.event for one in running}
        for event in self._tried.keys() - events:
            for known in (self._looked, self._tried, self._found, self._unread):
                known.pop(event, None)

    def _look(self, model: str, canary: Canary, running: Release | None, alarms: Alarms, url: str) -> None:
        try:
            if self._store is None:
                self._store = OutcomeStore.open(url, create=False)
            found = own_alarms(canary.release, running, alarms(model, self._store))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
            # Of an error that is not ours its kind alone, for it may quote a row.
            why = str(error) if isinstance(error, RegistryError) else type(error).__name__
            if self._unread.get(canary.event) != why:
                log.error("outcomes cannot be read for the canary of %s: %s", model, shown(why))  # noqa: TRY400
            self._unread[canary.event] = why
            return
        self._unread.pop(canary.event, None)
        self._looked[canary.event] = time.monotonic()
        if found and canary.event not in self._found:
            log.error("the canary of %s answers nobody any more: %s", model, shown("; ".join(found)))
            self._found[canary.event] = found  # for good: no look undoes it, a new promotion may
