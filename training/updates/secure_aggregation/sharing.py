"""Whose shares of which secrets are with whom, as the coordinator of a sum keeps it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from training.errors import MessageError
from training.updates.secure_aggregation.circle import Circle
from training.updates.secure_aggregation.recovery import Recovery


@dataclass
class Sharing:
    """Who shares with whom in one sum; clients are told by their places.

    Attributes:
        circle: among how many each shares its secrets.
        rows: of each client that shared, the row of each holder's share.
    """

    circle: Circle
    rows: dict[int, dict[int, int]] = field(default_factory=dict)
    _recoveries: dict[frozenset[int], Recovery] = field(default_factory=dict)

    def note(self, place: int, holders: Iterable[int]) -> None:
        """A client has shared with these, in the order of its shares."""
        self.rows[place] = {holder: row for row, holder in enumerate(holders)}

    def senders(self, holder: int, among: Iterable[int]) -> list[int]:
        """Those of `among` whose shares this client holds."""
        return [place for place in among if holder in self.rows[place]]

    def partners(self, place: int, among: Iterable[int]) -> list[int]:
        """Those of `among` that have a mask in common with this client."""
        own = self.rows[place]
        return [other for other in among if other in own or place in self.rows[other]]

    def secret(self, place: int, given: Mapping[int, Mapping[int, bytes]], names: Sequence[str]) -> bytes:
        """A secret of the client at a place, from what its holders gave.

        Args:
            place: whose.
            given: by holder, shares by whose they are.
            names: of all clients.

        Raises:
            MessageError: when shares are too few or contradict each other; naming whose, where one does.
        """
        rows = self.rows[place]
        shares = {rows[holder]: found[place] for holder, found in given.items() if place in found}
        there = frozenset(shares)
        if there not in self._recoveries:
            self._recoveries[there] = Recovery.of(there, self.circle.threshold)
        recovery = self._recoveries[there]
        try:
            return recovery.secret(shares)
        except MessageError as error:
            wrong = recovery.wrong(shares)
            if wrong is None:
                raise
            holder = next(holder for holder, row in rows.items() if row == wrong)
            raise MessageError(f"{error}: that of {names[holder]} fits none of the others") from error
