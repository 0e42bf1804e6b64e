"""What can go wrong with the registry, as one tree.

RegistryError
├── NotFound               no model, version, alias or key of this name
├── InvalidName            a name, address or number that the registry cannot take
├── Refused                a rule says no
│   ├── GateRefusal        a gate judges the release that would result
│   ├── ReleaseRefused     the versions do not make a release
│   ├── NothingToRollBack  the alias has no release before this one
│   └── BundleRefused      the bundle is not one that could answer
├── DatabaseError          the database cannot be opened, read or written
│   ├── SchemaTooOld       an older dermfed made its tables
│   └── SchemaTooNew       a newer dermfed made its tables
└── StoreError             the folder of objects cannot be read or written
    ├── ObjectMissing      an object that a version needs is not there
    └── ObjectCorrupt      an object is not the one that was put there
"""

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from registry.gates import GateReport


class RegistryError(Exception):
    """Base of all errors of the registry; its text is for the person who has to act on it.

    Attributes:
        exit_code: how a command ends that meets it: 1 a rule says no, 2 wrong use or bad input.
    """

    exit_code: ClassVar[int] = 2


class NotFound(RegistryError):  # noqa: N818 - reads as what it says where it is caught
    """No model, version, alias or key of this name; the text lists the nearest there are."""


class InvalidName(RegistryError):  # noqa: N818
    """A name, address or number that the registry cannot take."""


class Refused(RegistryError):  # noqa: N818
    """A rule says no."""

    exit_code: ClassVar[int] = 1


class GateRefusal(Refused):
    """A gate refuses the release that a promotion would make.

    Attributes:
        report: what every gate said.
    """

    def __init__(self, message: str, report: "GateReport") -> None:
        super().__init__(message)
        self.report = report


class ReleaseRefused(Refused):
    """The versions do not make a release; nothing overrides this."""


class NothingToRollBack(Refused):
    """The alias has no release before the one it points to."""


class BundleRefused(Refused):
    """The bundle is not one that could answer: its files or its parts do not agree."""


class DatabaseError(RegistryError):
    """The database cannot be opened, read or written."""


class SchemaTooOld(DatabaseError):  # noqa: N818
    """An older dermfed made the tables; `dermfed-registry upgrade` changes them."""


class SchemaTooNew(DatabaseError):  # noqa: N818
    """A newer dermfed made the tables."""


class StoreError(RegistryError):
    """The folder of objects cannot be read or written."""


class ObjectMissing(StoreError):  # noqa: N818
    """An object that a version needs is not there."""


class ObjectCorrupt(StoreError):  # noqa: N818
    """An object is not the one that was put there."""
