"""A kit: the folder with which a participant takes part: keys, certificates, participants, permissions.

startup/   keys, certificates and addresses, as FLARE reads them
local/     what this site allows; written once and read at every start
private/   what stays here: jobs, results and states; readable by its owner alone
federation.yaml and kit.json: who is in the federation, and whose kit this is
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from clients.federation.errors import KitError
from clients.federation.federation_file import Federation, read_federation
from training.config import FrozenConfig
from training.files import write_text

Role = Literal["server", "hospital", "admin"]
PRIVATE, PRIVATE_FILE = 0o700, 0o600  # of folders and of files: their owner's alone


class KitFacts(FrozenConfig):
    """The content of `kit.json`: whose kit this is.

    Attributes:
        role: what its owner does.
        name: its owner: `server`, `admin` or the hospital's name.
        identity: the name in its certificate.
    """

    role: Role
    name: str
    identity: str
    organisation: str


class NodeSettings(FrozenConfig):
    """The content of `local/node.json`: what this machine's owner chose when the node was started.

    Attributes:
        data: the manifest of this node's pictures; at the coordinator often none.
    """

    data: str | None = None


@dataclass(frozen=True)
class Kit:
    """A kit on disk.

    Attributes:
        path: its folder.
        facts: whose it is.
        federation: who is in.
    """

    path: Path
    facts: KitFacts
    federation: Federation

    @property
    def private(self) -> Path:
        """The folder of what stays at this machine."""
        return self.path / "private"

    @property
    def releases(self) -> Path:
        """The account of what this node told of its pictures, over all runs."""
        return self.private / "releases"

    @property
    def log(self) -> Path:
        """The node's log file."""
        return self.path / "node.log"

    @property
    def certificate(self) -> Path:
        """The owner's certificate; the private key is beside it, with the ending `.key`."""
        return self.path / "startup" / f"{'server' if self.facts.role == 'server' else 'client'}.crt"

    @property
    def key(self) -> Path:
        """The owner's private key."""
        return self.certificate.with_suffix(".key")

    def require_key(self) -> None:
        """Refuse a kit without a private key.

        Raises:
            KitError: saying where it belongs.
        """
        if not self.key.is_file():
            raise KitError(
                f"{self.path} has no private key; put the one that `dermfed-node request` made at this "
                f"hospital into {self.key}"
            )

    def settings(self) -> NodeSettings:
        """The settings that the node was started with."""
        path = self.path / "local" / "node.json"
        return NodeSettings.model_validate_json(path.read_text()) if path.exists() else NodeSettings()

    def keep_settings(self, settings: NodeSettings) -> None:
        """Save the node's settings, for the processes that its jobs run in."""
        path = self.path / "local" / "node.json"
        write_text(path, settings.model_dump_json() + "\n")
        path.chmod(PRIVATE_FILE)


def open_kit(path: Path, *roles: Role) -> Kit:
    """Read a kit that `dermfed-node provision` made.

    Raises:
        KitError: it is none, or belongs to another role than `roles`.
    """
    try:
        facts = KitFacts.model_validate(json.loads((path / "kit.json").read_text()))
    except (OSError, ValueError, ValidationError) as error:
        raise KitError(
            f"{path} is no kit ({error}); name a folder that `dermfed-node provision` made"
        ) from error
    if roles and facts.role not in roles:
        raise KitError(
            f"{path} is the kit of {facts.name} ({facts.role}); needed is one of {', '.join(roles)}"
        )
    return Kit(path.absolute(), facts, read_federation(path / "federation.yaml"))
