"""The federation file: names, roles and addresses of all participants. Nobody else is let in."""

from collections import Counter
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from clients.federation.errors import FederationFileError
from training.config import FrozenConfig, read_config
from training.data.dataset import SERVER, UNLABELLED_CLIENT

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
