"""What may be done from the console, as the page asks for it, and how it is done in a registry."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from registry.records import Event
from registry.registry import Registry

LONGEST_REASON: Final = 2000
"""Characters of a reason."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Numbers = Annotated[tuple[Annotated[int, Field(ge=1, lt=2**31)], ...], Field(max_length=200)]


class Asked(BaseModel):
    """What every action says.

    Attributes:
        model: of which model.
        reason: why; empty where nobody says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Name
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""

    @property
    def needs_reason(self) -> bool:
        """Whether it is done with a reason alone."""
        return False


class Chosen(Asked):
    """An action on the release that would result.

    Attributes:
        versions: the versions named.
        without: subgroups that are to have no version of their own.
        alias: under which alias.
    """

    versions: Numbers = ()
    without: Annotated[tuple[Name, ...], Field(max_length=200)] = ()
    alias: Name


class Approve(Chosen):
    """Stands for a release, for somebody else to promote."""

    action: Literal["approve"]

    def do(self, registry: Registry) -> Sequence[Event]:
        """Does it, and gives the events that it left."""
        where: Any = {"to": self.alias, "without": self.without}
        return [registry.approve(self.model, self.versions, reason=self.reason or None, **where)]


class Promote(Chosen):
    """Releases versions under an alias.

    Attributes:
        override: whether it is done although a gate refuses.
    """

    action: Literal["promote"]
    override: bool = False

    @property
    def needs_reason(self) -> bool:
        """An override does."""
        return self.override

    def do(self, registry: Registry) -> Sequence[Event]:
        """Does it, and gives the events that it left; none where the alias points to this already."""
        event = registry.promote(
            self.model,
            self.versions,
            to=self.alias,
            without=self.without,
            reason=self.reason or None,
            override_gates=self.override,
        )
        return [] if event is None else [event]


class RollBack(Asked):
    """Goes back to the release before.

    Attributes:
        alias: the alias that goes back.
    """

    action: Literal["roll-back"]
    alias: Name

    def do(self, registry: Registry) -> Sequence[Event]:
        """Does it, and gives the events that it left."""
        return [registry.rollback(self.model, alias=self.alias, reason=self.reason or None)]


class Stop(Asked):
    """Lets an alias point to nothing.

    Attributes:
        alias: the alias that is stopped.
    """

    action: Literal["stop"]
    alias: Name

    @property
    def needs_reason(self) -> bool:
        """Always."""
        return True

    def do(self, registry: Registry) -> Sequence[Event]:
        """Does it, and gives the events that it left; none where it was stopped already."""
        event = registry.stop(self.model, alias=self.alias, reason=self.reason)
        return [] if event is None else [event]


class Withdraw(Asked):
    """Withdraws versions for good, and moves every alias away from them.

    Attributes:
        versions: the versions.
    """

    action: Literal["withdraw"]
    versions: Annotated[Numbers, Field(min_length=1)]

    @property
    def needs_reason(self) -> bool:
        """Always."""
        return True

    def do(self, registry: Registry) -> Sequence[Event]:
        """Does it, and gives the events that it left; none where all were withdrawn already."""
        found = registry.withdraw(self.model, self.versions, reason=self.reason)
        return [] if found is None else [found.event, *found.moved]


Action = Annotated[Approve | Promote | RollBack | Stop | Withdraw, Field(discriminator="action")]
