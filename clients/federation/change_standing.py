"""Disable or enable a hospital at the coordinator, and say what that means."""

import logging
from typing import Literal

from clients.federation.admin_client import AdminClient
from clients.federation.kit import Kit
from clients.federation.standing import Standing, refuse_stranger


def change_standing(kit: Kit, name: str, how: Literal["disable", "enable"], *, left: bool) -> Standing:
    """Tell the coordinator to let a hospital in no more, or again.

    Args:
        kit: the admin's.
        name: the hospital's.
        how: which of both.
        left: whether the name may be in no federation file any more.

    Raises:
        FederationError: there is no such hospital, or the coordinator is not reached or does not do so.
    """
    refuse_stranger(name, kit.federation.names, left=left)
    logging.getLogger().addHandler(logging.NullHandler())  # FLARE prints every lost packet
    admin = AdminClient(kit)
    try:
        return admin.disable(name) if how == "disable" else admin.enable(name)
    finally:
        admin.close()


def told(standing: Standing) -> str:
    """A hospital's standing in sentences, for whoever changed it."""
    name = standing.hospital
    if standing.state == "enabled":
        if not standing.changed:
            return f"{name} was not disabled; nothing has changed"
        return (
            f"{name} is let in again, and so is everybody who has a key and certificate in its name. If its "
            f"kit was stolen, disable {name} again and let the hospital come back under another name"
        )
    was = "" if standing.changed else " It was disabled before."
    there = "It was connected and is dropped" if standing.disconnected else "It was not connected"
    return (
        f"{name} is disabled: no certificate in its name is let in, also after a restart of the coordinator."
        f"{was} {there}. In a run under way it is a site that is away; --resume --without {name} takes it "
        "out of the run for good"
    )
