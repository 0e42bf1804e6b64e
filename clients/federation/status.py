"""What a run under way shows: its progress in a line, and a copy of the coordinator's log of rounds.

Whether a hospital is let in: those that the coordinator's operator has disabled, as FLARE keeps them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.federation.errors import FederationError
from training.engines.calls import ChannelError
from training.jobs.job import Job
from training.progress import left_text, seconds_left

MAX_NAMES = 8  # names in one list


def status_line(progress: Mapping[str, Any]) -> str:
    """The request under way: who answered, who has not yet, who is offline; empty between two requests.

    Args:
        progress: what the coordinator reports of the run.
    """
    pending, offline = progress.get("pending", ()), progress.get("offline", {})
    if not progress.get("asking") or not pending:
        return ""
    answered = progress.get("answered", ())
    parts = [f"{progress['asking']}: {len(answered)} of {len(answered) + len(pending)} answered"]
    here = [name for name in pending if name not in offline]
    if here:
        parts.append(f"{progress.get('seconds', 0):.0f} s, not yet {names(here)}")
    if offline:
        parts.append(f"offline {names(list(offline))}")
    return "; ".join(parts)


def rounds_line(job: Job, last: Sequence[Mapping[str, Any]]) -> str:
    """How many rounds of the stage under way are done, and how long the others take.

    Empty where none is under way, or the job has no such stage.

    Args:
        job: the job.
        last: the last rounds in `metrics.jsonl`; the mean of their seconds is what a round takes.
    """
    if not last:
        return ""
    key, done = last[-1]["stage"], last[-1]["round"]
    keys = [job.key(place) for place in range(len(job.stages))]
    if key not in keys:
        return ""
    total = job.stage(key).num_rounds
    if total is None or done >= total:
        return ""
    seconds = [line["seconds"] for line in last if line["stage"] == key]
    follow = len(keys) - 1 - keys.index(key)
    left = seconds_left(seconds, total - done)
    return f"{done} of {total} rounds done, {left_text(left, stages_follow=follow)}"


def names(clients: list[str]) -> str:
    """As many names as fit on a line."""
    more = f" and {len(clients) - MAX_NAMES} more" if len(clients) > MAX_NAMES else ""
    return ", ".join(clients[:MAX_NAMES]) + more


SIZE, DIGEST = "size", "sha256"  # of what is there already
START, TEXT = "metrics_from", "metrics"
LONGEST = 1e9  # seconds of a round, 30 years: what is longer, or infinite, is no figure to reckon with


def log_delta(log: Path, known: object) -> dict[str, Any]:
    """The part of the log that a follower lacks, for it to `take`; nothing where it has all.

    Args:
        log: `metrics.jsonl`.
        known: what `MetricsFollower.known` returned.
    """
    content = log.read_bytes() if log.exists() else b""
    content = content[: content.rfind(b"\n") + 1]
    start = int(known.get(SIZE, 0)) if isinstance(known, dict) else 0
    if start > len(content) or (start and digest(content[:start]) != known.get(DIGEST)):  # type: ignore[attr-defined]
        start = 0
    elif start == len(content):
        return {}
    return {START: start, TEXT: content[start:].decode()}


def digest(content: bytes) -> str:
    """The SHA-256 by which two beginnings of a log are compared."""
    return hashlib.sha256(content).hexdigest()


def round_line(line: bytes) -> dict[str, Any] | None:
    """A line of the log that has the stage, the round and the seconds of a round; None for any other.

    A coordinator may send anything; an invalid line must not end the process that follows the run.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    number, seconds = found.get("round"), found.get("seconds")
    if not isinstance(found.get("stage"), str) or isinstance(number, bool) or isinstance(seconds, bool):
        return None
    if not isinstance(number, int) or not isinstance(seconds, (int, float)):
        return None
    return found if number >= 1 and 0 <= seconds <= LONGEST else None


class MetricsFollower:
    """A local copy of the log that is brought up to date by deltas.

    The log may get shorter when a run is taken up from a checkpoint, and grow again with other seconds in it.
    So the follower sends what it has, and gets either what follows or all of it.

    Args:
        path: where; created with the first data.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def known(self) -> dict[str, Any]:
        """The size and digest of the copy, which ask for the next delta."""
        content = self._path.read_bytes() if self._path.exists() else b""
        return {SIZE: len(content), DIGEST: digest(content)}

    def last(self, count: int) -> list[dict[str, Any]]:
        """The rounds in the last lines of the copy, up to `count`, to be shown; lines of no round are not."""
        lines = self._path.read_bytes().splitlines()[-count:] if self._path.exists() else []
        return [found for line in lines if (found := round_line(line)) is not None]

    def take(self, delta: Mapping[str, Any]) -> None:
        """Append a delta to the copy, or replace the copy by it."""
        if TEXT not in delta:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.truncate(int(delta[START]))
            file.seek(0, 2)
            file.write(str(delta[TEXT]).encode())


@dataclass(frozen=True)
class SiteStatus:
    """How a hospital stands with the coordinator after it was disabled or enabled.

    Attributes:
        hospital: the name in its certificate, by which FLARE knows it.
        state: `disabled` or `enabled`.
        changed: whether it was not so before.
        disconnected: whether it was connected, and is no longer.
    """

    hospital: str
    state: str
    changed: bool
    disconnected: bool = False


def read_site_status(name: str, reply: Mapping[str, Any]) -> SiteStatus:
    """What FLARE replied about one hospital.

    Raises:
        FederationError: it says nothing of that hospital, or that it failed.
    """
    for entry in reply.get("clients", ()):
        match entry:
            case {"client_name": found, "state": "disabled"} if found == name:
                return SiteStatus(
                    name, "disabled", not entry["already_disabled"], bool(entry["active_session_removed"])
                )
            case {"client_name": found, "state": "enabled"} if found == name:
                return SiteStatus(name, "enabled", bool(entry["was_disabled"]))
    raise FederationError(
        f"the coordinator does not say how {name} stands now: {dict(reply)}; look into "
        "kits/server/disabled_clients.json there, which names those that are disabled"
    )


DISABLED_FILE = "disabled_clients.json"
"""FLARE's, written whole or not at all; it does not start with one that it cannot read."""

DISABLED = "the coordinator's operator has disabled it (dermfed-node enable lets it in again)"


@dataclass(frozen=True)
class DisabledHospitals:
    """The hospitals that FLARE no longer admits, read again at every access.

    Attributes:
        kit: the server's kit, which is FLARE's workspace.
    """

    kit: Path

    def names(self) -> frozenset[str]:
        """The names in the certificates that are refused.

        Raises:
            ChannelError: the file is there and cannot be read; then no hospital is admitted.
        """
        path = self.kit / DISABLED_FILE
        try:
            found = json.loads(path.read_text())["disabled_clients"]
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ChannelError(
                f"{path} cannot be read ({error}), so nobody knows who is disabled; restore it"
            ) from error
        if not isinstance(found, list):
            raise ChannelError(f"{path} holds no list of names, so nobody knows who is disabled; restore it")
        return frozenset(f"{name}" for name in found)

    def refuse(self, name: str) -> None:
        """Refuse a hospital that is disabled.

        Raises:
            ChannelError: it is, or that cannot be determined.
        """
        if name in self.names():
            raise ChannelError(DISABLED)
