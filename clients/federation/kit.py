"""The federation file, which names all participants, and a kit: the folder with which one of them takes part.

startup/   keys, certificates and addresses, as FLARE reads them
local/     what this site allows; written once and read at every start
private/   what stays here: jobs, results and states; readable by its owner alone
federation.yaml and kit.json: who is in the federation, and whose kit this is
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from clients.federation.errors import FederationFileError, KitError
from training.config import FrozenConfig, read_config
from training.data.dataset import SERVER, UNLABELLED_CLIENT
from training.files import write_text

OTHERS = 0o077  # what nobody else may do with a file that a node makes


@contextmanager
def private_files() -> Iterator[None]:
    """Whatever this process makes meanwhile is for its own user alone."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


ADMIN = "admin"
RENEWED = "renewed"  # the folder of certificates for another year, beside the kits
RESERVED = (
    SERVER,
    ADMIN,
    "authority",
    RENEWED,
    UNLABELLED_CLIENT,
)  # names of other kits, or of clients that jobs make
NAME = r"^[a-z0-9][a-z0-9-]{0,61}$"  # what a certificate, a host and a folder can all be called
ORGANISATION = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,61}$"


class Coordinator(FrozenConfig):
    """The coordinator's address, where hospitals connect to.

    Attributes:
        host: the name or address by which hospitals reach it; its certificate is made out to this.
        also: further names and addresses of the same machine.
        port: the only port that must be open there; hospitals open none.
    """

    host: str = Field(min_length=1, max_length=63)
    also: tuple[str, ...] = ()
    port: int = Field(8002, ge=1, le=65535)
    organisation: str = Field("coordinator", pattern=ORGANISATION)

    @field_validator("host")
    @classmethod
    def _reached_by_ipv4(cls, host: str) -> str:
        """FLARE's server listens on IPv4 alone, and takes a colon for the beginning of the port."""
        if ":" in host:
            raise ValueError(
                f"{host} is no name and no IPv4 address, and the coordinator listens on IPv4 alone; give a "
                "name that has an IPv4 address, or that address, and the port under `port`"
            )
        return host


class Hospital(FrozenConfig):
    """A hospital; its name is the client's name in jobs.

    Attributes:
        request: what the hospital wants signed, made by `dermfed-node request`, by a path from the federation
            file's folder; without it a key is made for it, and is in its kit.
    """

    name: str = Field(pattern=NAME)
    organisation: str = Field("hospital", pattern=ORGANISATION)
    request: str | None = None


class Authority(FrozenConfig):
    """The certificate authority's PEM files, by paths from the federation file's folder.

    Attributes:
        certificate: its own certificate.
        key: its private key, without a password; needed to provision and in no kit.
    """

    certificate: str
    key: str


class Federation(FrozenConfig):
    """The content of a federation file."""

    name: str = Field(pattern=NAME)
    coordinator: Coordinator
    hospitals: tuple[Hospital, ...] = Field(min_length=1)
    authority: Authority | None = None
    valid_days: int = Field(360, ge=1, le=3650)  # of an authority that is made here

    @property
    def names(self) -> tuple[str, ...]:
        """The hospitals, in the order in which sums are taken."""
        return tuple(hospital.name for hospital in self.hospitals)

    @field_validator("hospitals")
    @classmethod
    def _names_of_their_own(cls, hospitals: tuple[Hospital, ...]) -> tuple[Hospital, ...]:
        counts = Counter(hospital.name for hospital in hospitals)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"two hospitals are called {', '.join(twice)}; give each a name of its own")
        taken = sorted(set(counts) & set(RESERVED))
        if taken:
            raise ValueError(
                f"a hospital may not be called {' or '.join(taken)}, which is the name of something else here"
            )
        return hospitals

    @model_validator(mode="after")
    def _nobody_is_called_as_the_coordinator(self) -> "Federation":
        if self.coordinator.host in self.names:
            raise ValueError(
                f"a hospital is called {self.coordinator.host}, as the coordinator's host; rename one"
            )
        return self


def read_federation(path: Path) -> Federation:
    """Read and check a federation file.

    Raises:
        FederationFileError: with one line for each thing that is wrong.
    """
    holds = "name, coordinator and hospitals"
    return read_config(path, Federation, FederationFileError, what="a federation file", holds=holds)


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
        """The record of the sums that this node sent of its pictures, over all runs."""
        return self.private / "releases"

    @property
    def log(self) -> Path:
        """The node's log file."""
        return self.path / "node.log"

    @property
    def certificate(self) -> Path:
        """The owner's certificate; the private key is next to it, with the ending `.key`."""
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
