"""The exceptions of the registry, as one tree.

RegistryError
├── NotFound               no model, version, alias or key of this name
├── InvalidName            a name, address or number that the registry cannot take
├── KeyUnusable            a file holds no key or certificate that can be used here
├── GateSetInvalid         a file of gates that does not hold
├── Refused                a rule says no
│   ├── GateRefusal        a gate judges the release that would result
│   ├── AliasMoved         the alias points to another release than was compared or expected
│   ├── ApprovalsMissing   fewer people have approved an action than a gate set asks for
│   ├── ReleaseRefused     the versions do not make a release
│   ├── NothingToApprove   it is so already, or has this person's approval
│   ├── NothingToRollBack  the alias has no release before this one
│   ├── VersionWithdrawn   the version was withdrawn and may answer no more
│   ├── AlarmClosed        the alarm was closed already
│   ├── KeyEnded           the key was revoked, has expired or was rotated already
│   ├── PersonRefused      no person who may do this has signed it
│   ├── SignatureRefused   no trusted key has signed the version
│   ├── ArchiveRefused     the file is not a release as it was exported
│   └── BundleRefused      the bundle is not one that could answer
├── ArchiveError           a release's file cannot be read or written
├── DatabaseError          the database cannot be opened, read or written
│   ├── DatabaseLost       what is in the database's place is not the registry that was opened, or nothing
│   └── OtherSchema        another version of dermfed made its tables
└── StoreError             the store of objects cannot be read or written
    ├── StoreLost          no object is where the store was looked for
    ├── ObjectMissing      an object that a version needs is not there
    └── ObjectCorrupt      an object is not the one that was put there
"""

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from registry.gate_report import Comparison, GateReport


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


class GateSetInvalid(RegistryError):  # noqa: N818
    """A file of gates that does not hold; the text names the gate, the key and what is valid."""


class KeyUnusable(RegistryError):  # noqa: N818
    """A file holds no key or certificate that can be used here."""


class Refused(RegistryError):  # noqa: N818
    """A rule says no."""

    exit_code: ClassVar[int] = 1


class GateRefusal(Refused):
    """A gate refuses the release that a promotion would make.

    Attributes:
        report: what every gate said.
        comparison: the release that was refused compared with the running one.
    """

    def __init__(self, message: str, report: "GateReport", comparison: "Comparison | None" = None) -> None:
        super().__init__(message)
        self.report = report
        self.comparison = comparison


class AliasMoved(Refused):
    """The alias points to another release than the action was compared with, or was expected.

    Attributes:
        report: what every gate says of the release that the promotion would make now; None of a rollback.
        comparison: that release compared with the running one; None of a rollback.
    """

    def __init__(
        self, message: str, report: "GateReport | None" = None, comparison: "Comparison | None" = None
    ) -> None:
        super().__init__(message)
        self.report = report
        self.comparison = comparison


class ApprovalsMissing(Refused):
    """Fewer people have approved an action than a gate set asks for."""


class ReleaseRefused(Refused):
    """The versions do not make a release; nothing overrides this."""


class NothingToApprove(Refused):
    """It is so already, or the same person has approved it before."""


class NothingToRollBack(Refused):
    """The alias has no release before the one it points to."""


class VersionWithdrawn(Refused):
    """The version was withdrawn and may answer no more; nothing overrides this."""


class AlarmClosed(Refused):
    """The alarm was closed already, for good."""


class KeyEnded(Refused):
    """The key was revoked, has expired or was rotated already, so it cannot be rotated."""


class PersonRefused(Refused):
    """No person who may do this has signed it."""


class SignatureRefused(Refused):
    """No trusted key has signed the version."""


class BundleRefused(Refused):
    """The bundle is not one that could answer: its files or its parts do not agree."""


class ArchiveRefused(Refused):
    """The file is not a release as it was exported: something in it was altered, added or left out."""


class ArchiveError(RegistryError):
    """A release's file cannot be read or written."""


class DatabaseError(RegistryError):
    """The database cannot be opened, read or written."""


class DatabaseLost(DatabaseError):  # noqa: N818
    """The registry that was opened is not in the database's place any more: nothing is, or another."""


class OtherSchema(DatabaseError):  # noqa: N818
    """Another version of dermfed made the tables."""


class StoreError(RegistryError):
    """The store of objects cannot be opened, read or written."""


class StoreLost(StoreError):  # noqa: N818
    """No object is where the store was looked for, though the database has versions."""


class ObjectMissing(StoreError):  # noqa: N818
    """An object that a version needs is not there."""


class ObjectCorrupt(StoreError):  # noqa: N818
    """An object is not the one that was put there."""
