"""One guard of the database, before it is put into the words of one kind of database."""

from dataclasses import dataclass
from typing import Literal

Action = Literal["insert", "update", "delete", "truncate"]
Change = Literal["revocation", "one event more"]


@dataclass(frozen=True)
class Guard:
    """One guard: against what, and on which table.

    Attributes:
        table: the table.
        action: what it refuses.
        keys: for an insertion: the columns of each unique key, of which a row that is there keeps its values;
            none where every insertion is refused.
        change: for an update: the one change that it lets pass; None for no change at all.
        fixed: for such a change: the columns that keep their values.
    """

    table: str
    action: Action
    keys: tuple[tuple[str, ...], ...] = ()
    change: Change | None = None
    fixed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its trigger."""
        return f"guard_{self.table}_{self.action}"
