"""Which of the nodes with one hospital's kit the coordinator lets in: the one that is there stays.

FLARE takes whoever registers last for the hospital: it drops the session of the node that was there, both
take turns at one connection, and a job goes to either. So a node asks before it connects, see
`clients.federation.asking`.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from training.atomic_files import write_text

SILENT = 60.0  # seconds without a heartbeat after which FLARE counts a node as gone
RETURNS = 30.0  # seconds that nodes have to be heard of again after the coordinator's own start
ASKED = 180.0  # seconds that a node may take from its question to its registration
TURN = 90.0  # seconds after that in which the node that was there last is let in, and no other


@dataclass
class Places:
    """The places from which hospitals' nodes are let in, kept over restarts of the coordinator.

    Attributes:
        path: of the file.
        clock: seconds, rising.
    """

    path: Path
    clock: Callable[[], float] = time.monotonic
    _holders: dict[str, str] = field(default_factory=dict, init=False)
    _asked: dict[str, tuple[str, float]] = field(default_factory=dict, init=False)
    _began: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return  # nobody was ever let in, or nobody knows
        if isinstance(found, dict):
            self._holders = {name: place for name, place in found.items() if isinstance(place, str)}

    def ask(self, name: str, place: str, heard: float | None) -> str:
        """Why a node may not come in; empty where it may.

        Args:
            name: of the hospital, in its certificate.
            place: of the node.
            heard: seconds since the node that is registered was heard of; None where none is.
        """
        now = self.clock()
        other, at = self._asked.get(name, (place, now))
        if other != place and now - at < ASKED:
            return f"another node of {name} is just coming in"
        if 0 <= now - at - ASKED < TURN and self._holders.get(name, place) != place:
            return f"a node of {name} asked and did not come, and the one that was there last has its turn"
        if self._holders.get(name, place) != place and self._may_be_there(heard):
            when = "may come back yet" if heard is None else f"was heard {heard:.0f} seconds ago"
            return f"another node of {name} {when}"
        # Who asks again while it is expected has no more time for it: asking alone keeps nobody out for good.
        expected = now - at < ASKED and self._holders.get(name) != place
        self._asked[name] = place, at if expected else now
        return ""

    def register(self, name: str, heard: float | None) -> str:
        """Why FLARE may not register a node; empty where it may, and the name is that place's then.

        One that did not ask came while the coordinator could not be asked.
        """
        place, at = self._asked.pop(name, ("", 0.0))
        if not place or self.clock() - at >= ASKED:
            if name in self._holders and self._may_be_there(heard):
                return f"another node of {name} may be there, and this one has not asked"
            place = ""
        self._hold(name, place)
        return ""

    def _may_be_there(self, heard: float | None) -> bool:
        if heard is None:
            return self.clock() - self._began < RETURNS
        return heard < SILENT

    def _hold(self, name: str, place: str) -> None:
        others = {known: held for known, held in self._holders.items() if known != name}
        changed = {**others, name: place} if place else others
        if changed != self._holders:
            self._holders = changed
            write_text(self.path, json.dumps(changed) + "\n")
