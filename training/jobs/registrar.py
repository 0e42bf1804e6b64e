"""The registrar interface: how a run registers its models, without knowing the registry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from registry.bundle.folder import Bundle
from training.errors import JobError


@dataclass(frozen=True)
class Registered:
    """The result of registering a run's models.

    Attributes:
        numbers: the version of each bundle, in their order.
        refused: why they were not promoted, if they should have been; the versions are there all the same.
    """

    numbers: tuple[int, ...]
    refused: str | None = None


class Registrar(Protocol):
    """Adds bundles and, if an alias is named, promotes all of them in one release."""

    def __call__(self, bundles: Sequence[Bundle], promote_to: str | None, reason: str | None) -> Registered:
        """Registers the bundles of one model."""
        ...


def no_registry(bundles: Sequence[Bundle], promote_to: str | None, reason: str | None) -> Registered:
    """The registrar of a run without a registry: refuses.

    Raises:
        JobError: always.
    """
    raise JobError(
        "this run was given no registry; start it with `dermfed-train`, or leave out the stage register"
    )
