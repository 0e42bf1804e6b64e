"""Notes: what reading a table took for granted, matched or left out."""

from collections.abc import Sequence


class Note(str):
    """A note as the owner of the table reads it.

    Attributes:
        plain: the same without a word of the table, a file's name or a cell: it may be handed on.
    """

    __slots__ = ("plain",)
    plain: str

    def __new__(cls, text: str, plain: str) -> "Note":
        """The note `text`, and what of it may be handed on."""
        made = super().__new__(cls, text)
        made.plain = plain
        return made

    def __reduce__(self) -> tuple[type["Note"], tuple[str, str]]:
        """Copies, also those of `asdict` and in other processes, are made with both texts."""
        return type(self), (str(self), self.plain)


def plain_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """What may be handed on of notes; of those that do not say it, how many there are."""
    plain = [note.plain for note in notes if isinstance(note, Note)]
    if others := len(notes) - len(plain):
        plain.append(f"{others} further notes on how tables were read are in the log")
    return tuple(plain)
