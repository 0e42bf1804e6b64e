"""Errors of a federation, as one tree.

clients.data.errors.ClientDataError's sibling, training.errors.TrainingError
└── FederationError
    ├── FederationFileError   the federation file is not what it should be
    ├── KitError              a kit is missing, incomplete, or of another kind than asked for
    └── ConnectionLostError   the coordinator cannot be reached
"""

from training.errors import TrainingError


class FederationError(TrainingError):
    """Base of all errors about a federation; its text is for whoever runs one."""


class FederationFileError(FederationError):
    """The federation file is not what it should be."""


class KitError(FederationError):
    """A kit is missing, incomplete, or of another kind than asked for."""


class ConnectionLostError(FederationError):
    """The coordinator cannot be reached."""
