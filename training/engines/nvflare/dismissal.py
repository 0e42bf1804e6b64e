"""Hospitals that whoever runs the federation takes out of a run: by name, on record, and for good.

From then on a dismissed hospital is asked nothing more, in rounds, tests and calibration alike, and the run
waits for it no longer. What it taught the models before stays in them, and its data stay part of the run's
fingerprint.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from training.errors import JobError
from training.roster import Roster


def dismiss(roster: Roster, names: Sequence[str]) -> Roster:
    """The roster without these hospitals; those that were dismissed before stay so.

    Raises:
        JobError: when nobody would be left.
    """
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    dismissed = {**dict.fromkeys(names, now), **roster.dismissed}
    left = tuple(name for name in roster.clients if name not in dismissed)
    if not set(left) - set(roster.unseen):
        raise JobError(
            f"{', '.join(dismissed)} are dismissed, and no hospital would be left; end the run instead"
        )
    return roster.model_copy(
        update={
            "clients": left,
            "unseen": tuple(name for name in roster.unseen if name in left),
            "sources": {name: source for name, source in roster.sources.items() if name in left},
            "dismissed": dismissed,
        }
    )
