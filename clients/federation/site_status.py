"""Whether a hospital is let in: those that the coordinator's operator has disabled, as FLARE keeps them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.federation.errors import FederationError
from training.engines.calls import ChannelError


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


FILE = (
    "disabled_clients.json"  # FLARE's, written whole or not at all; it does not start with one it cannot read
)
REASON = "the coordinator's operator has disabled it (dermfed-node enable lets it in again)"


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
        path = self.kit / FILE
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
            raise ChannelError(REASON)
