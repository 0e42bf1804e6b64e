"""Whether the registry is still the one of a moment ago: its history only goes on.

An older copy that was restored is served, for nobody else can say what is current. But what was done since it
was made is undone in it, and two things never come back while the service runs: a version that was
withdrawn (`serving.releases.current_release`), and an API key that was revoked.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from registry.records import ApiKey, Standing


class History:
    """The registry's chain of events as it was at the last look.

    Attributes:
        issue: what happened to it, one sentence; empty as long as it only grew.
    """

    def __init__(self) -> None:
        """Nothing has been looked at yet."""
        self.issue = ""
        self._events, self._newest = 0, ""

    def look(self, standing: Standing, has_event: Callable[[str], bool] | None) -> None:
        """Compares what the registry tells now with the last look.

        Args:
            standing: what it tells.
            has_event: whether its chain has an event of this hash; None where it cannot tell.
        """
        known, events = self._newest, self._events
        if known and standing.newest != known and has_event is not None and not has_event(known):
            self.issue = (
                f"the registry was set back: it had {events} events, and the newest of these is not in it "
                f"any more; it has {standing.events} now. An older copy was restored, or it was altered: "
                "what was done since is undone in it. Look at `dermfed-registry history` and "
                "`dermfed-registry keys list`, then start the service again"
            )
        self._events, self._newest = standing.events, standing.newest


def without_return(before: Iterable[ApiKey], now: Iterable[ApiKey]) -> tuple[ApiKey, ...]:
    """The keys that the registry holds now, of which none that was bad before is good again.

    One that the registry does not hold any more counts as revoked, so that a registry without keys does not
    open a service that had some.
    """
    held = {one.id: one for one in now}
    for old in before:
        new = held.get(old.id)
        if new is None:
            held[old.id] = old if old.revoked is not None else replace(old, revoked=datetime.now(UTC))
        elif old.revoked is not None and new.revoked is None:
            held[old.id] = replace(new, revoked=old.revoked)
    return tuple(held.values())
