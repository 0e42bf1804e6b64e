"""Errors of a federation, as one tree.

clients.data.errors.ClientDataError's sibling, training.errors.TrainingError
└── FederationError
    ├── FederationFileError   the federation file is not what it should be
    ├── KitError              a kit is missing, incomplete, or of another kind than asked for
    ├── ConnectionLostError   the coordinator cannot be reached
    ├── JournalError          what leaves a hospital cannot be entered in its journal
    └── PolicyError           a hospital's own policy does not allow what it is asked
        ├── PolicyFileError   that policy cannot be read, and allows nothing
        ├── ClosedHoursError  not at this hour
        └── LimitsError       it leaves no more disk space
"""

from typing import ClassVar

from training.errors import TrainingError


class FederationError(TrainingError):
    """Base of all errors about a federation; its text is for the operator."""

    code: ClassVar[str] = "kit"


class FederationFileError(FederationError):
    """The federation file is not what it should be."""


class KitError(FederationError):
    """A kit is missing, incomplete, or of another kind than asked for."""


class ConnectionLostError(FederationError):
    """The coordinator cannot be reached."""


class JournalError(FederationError):
    """What leaves a hospital cannot be entered in its journal; so it does not leave."""

    code: ClassVar[str] = "journal"


class PolicyError(FederationError):
    """A hospital's own policy does not allow what it is asked; the text is for the hospital."""

    code: ClassVar[str] = "policy"


class PolicyFileError(PolicyError):
    """A hospital's policy is not what it should be, and allows nothing until it is."""


class ClosedHoursError(PolicyError):
    """A hospital's policy allows no work at this hour."""

    code: ClassVar[str] = "hours"


class LimitsError(PolicyError):
    """A hospital's policy leaves no more disk space."""

    code: ClassVar[str] = "limits"
