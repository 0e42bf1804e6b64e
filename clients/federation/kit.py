"""A kit: the folder that lets one party take part. Keys and certificates, who is in, what may run.

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
    """`kit.json`.

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
    """`local/node.json`: what this machine's owner chose when it was started.

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
        """What stays at this machine."""
        return self.path / "private"

    @property
    def log(self) -> Path:
        """What the node says."""
        return self.path / "node.log"

    @property
    def certificate(self) -> Path:
        """Of its owner; the private key is beside it under the same name, with the ending `.key`."""
        return self.path / "startup" / f"{'server' if self.facts.role == 'server' else 'client'}.crt"

    @property
    def key(self) -> Path:
        """Of its owner."""
        return self.certificate.with_suffix(".key")

    def require_key(self) -> None:
        """Refuse to take part without a key.

        Raises:
            KitError: saying where it belongs.
        """
        if not self.key.is_file():
            raise KitError(
                f"{self.path} has no private key; put the one that `dermfed-node request` made at this "
                f"hospital into {self.key}"
            )

    def settings(self) -> NodeSettings:
        """What the node was started with."""
        path = self.path / "local" / "node.json"
        return NodeSettings.model_validate_json(path.read_text()) if path.exists() else NodeSettings()

    def keep_settings(self, settings: NodeSettings) -> None:
        """Remember what the node is started with, for the processes that its jobs run in."""
        path = self.path / "local" / "node.json"
        write_text(path, settings.model_dump_json() + "\n")
        path.chmod(PRIVATE_FILE)


def open_kit(path: Path, *roles: Role) -> Kit:
    """A kit that `dermfed-node provision` made.

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
