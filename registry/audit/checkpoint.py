"""Heads of the chain of events, kept where nobody here can change them.

A head is how many events there are, and the hash of the last. Whoever may do anything in the database can
write a whole new chain that is valid. A head that was kept elsewhere tells of any other chain, and of a
shorter one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Engine, select

from registry.database.action import registry_id
from registry.database.connection import reading
from registry.database.hash_chain import GENESIS
from registry.database.tables import EventRow, HeadRow
from registry.errors import DatabaseError, InvalidName
from registry.records import RESTORE, IntegrityIssue

_TEXT = re.compile(r"(\d{1,18}):(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True)
class Head:
    """The head of a chain: how many events it has, and the hash of the last; its text is `N:HASH`."""

    events: int
    hash: str

    def __str__(self) -> str:
        return f"{self.events}:{self.hash}"


class KeptHead(BaseModel):
    """A head as a file keeps it.

    Attributes:
        registry: the id of the registry; None where a head was given as text.
        events: how many events there are.
        hash: the hash of the last.
        time: when it was written down, by the clock there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    registry: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    events: Annotated[int, Field(ge=0)]
    hash: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    time: AwareDatetime | None = None

    @classmethod
    def read(cls, given: str) -> Self:
        """The head that is given as `N:HASH`, or kept in the file of this name.

        Raises:
            InvalidName: it is neither.
        """
        if (said := _TEXT.fullmatch(given)) is not None:
            return cls(events=int(said[1]), hash=f"sha256:{said[2]}")
        try:
            return cls.model_validate_json(Path(given).read_bytes())
        except OSError as error:
            raise InvalidName(
                f"the head {given!r} is no file that can be read ({error.strerror}), nor N:HASH as "
                "`dermfed-registry head` prints it"
            ) from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise InvalidName(
                f"{given} keeps no head ({where}: {first['msg']}); give a file that `dermfed-registry head "
                "--out FILE` has written"
            ) from error

    @property
    def head(self) -> Head:
        """The head itself."""
        return Head(self.events, self.hash)


@dataclass(frozen=True)
class ComparedHead:
    """A head that was kept, compared with the chain.

    Attributes:
        head: the head.
        issue: what is wrong; None where the chain is still the same up to there.
    """

    head: KeptHead
    issue: IntegrityIssue | None


def keep_head(engine: Engine) -> KeptHead:
    """The head of the chain now.

    Raises:
        DatabaseError: the database does not say where its chain ends.
    """
    with reading(engine) as connection:
        end = connection.execute(select(HeadRow.events, HeadRow.hash)).first()
        if end is None:
            raise DatabaseError(
                "the database does not say where its chain of events ends; run `dermfed-registry verify`, "
                "and restore a copy of the database"
            )
        return KeptHead(
            registry=registry_id(connection) or None, events=end.events, hash=end.hash, time=datetime.now(UTC)
        )


def compare_heads(engine: Engine, heads: Sequence[KeptHead]) -> tuple[ComparedHead, ...]:
    """Compares heads that were kept with the chain."""
    with reading(engine) as connection:
        registry = registry_id(connection)
        hashes = (GENESIS, *connection.scalars(select(EventRow.hash).order_by(EventRow.id)))
    return tuple(ComparedHead(one, _issue(one, registry, hashes)) for one in heads)


def _issue(kept: KeptHead, registry: str, hashes: Sequence[str]) -> IntegrityIssue | None:
    about = f"the head of {kept.events} events"
    if kept.registry not in (None, registry):
        issue = f"it was kept of the registry {kept.registry}, and this one is {registry or 'without an id'}"
        return IntegrityIssue(about, f"{issue}; name the right one with --url")
    if kept.events >= len(hashes):
        issue = f"there are {len(hashes) - 1} now: events after them were removed; {RESTORE}"
        return IntegrityIssue(about, issue)
    if (there := hashes[kept.events]) != kept.hash:
        issue = f"the hash was {kept.hash} and is {there}: the chain was written anew; {RESTORE}"
        return IntegrityIssue(about, issue)
    return None
