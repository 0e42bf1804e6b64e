"""Sentences for people, kept as a template and its values, so that a page can say them in another language.

A `Message` is the English sentence, and goes wherever a string goes: into JSON, a log, an exception, another
process. What shows it to people may take it apart again (`serving.web.catalogue`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, Self

from pydantic import WrapValidator


class Number(str):
    """A number as it is shown, `1,234.5`, whose marks another language may write otherwise."""

    __slots__ = ()


class Message(str):
    """A sentence, or a word of the vocabulary.

    Attributes:
        template: the sentence with its placeholders, `The picture has {width} pixels.`
        values: what stands in them; one may be a message itself, or a `Number`.
        many: the template for other numbers than one; None where the sentence counts nothing.
        n: the number that it counts.
    """

    template: str
    values: Mapping[str, object]
    many: str | None
    n: int

    def __new__(cls, template: str, /, **values: object) -> Self:
        """The sentence of a template. What has braces of its own goes in as a value."""
        return cls._made(template, None, 1, values)

    @classmethod
    def counted(cls, one: str, many: str, n: int, /, **values: object) -> Self:
        """The sentence for a number of things, which is the value `n`.

        Args:
            one: the template for one.
            many: the template for any other number.
            n: how many.
            values: what stands in the other placeholders.
        """
        return cls._made(one, many, n, {"n": n, **values})

    @classmethod
    def _made(cls, template: str, many: str | None, n: int, values: Mapping[str, object]) -> Self:
        said = template if many is None or n == 1 else many
        made = super().__new__(cls, said.format_map(values) if values else said)
        made.template, made.many, made.n, made.values = template, many, n, dict(values)
        return made

    def __str__(self) -> str:
        """Itself: `str` of an exception that was raised with a message is that message."""
        return self

    def __reduce__(self) -> tuple[Callable[..., "Message"], tuple[Any, ...]]:
        """Other processes get the template and the values, and not the sentence alone."""
        return self._made, (self.template, self.many, self.n, self.values)


def either(choices: Sequence[str]) -> str:
    """`a or b or c`."""
    return reduce(lambda before, last: Message("{before} or {last}", before=before, last=last), choices)


def both(parts: Sequence[str]) -> str:
    """`a and b and c`."""
    return reduce(lambda before, last: Message("{before} and {last}", before=before, last=last), parts)


def _kept(given: Any, check: Callable[[Any], Any]) -> Any:
    checked = check(given)
    if isinstance(checked, str):
        return given if isinstance(given, Message) else checked
    return [old if isinstance(old, Message) else new for old, new in zip(given, checked, strict=True)]


KEEPS_MESSAGES = WrapValidator(_kept)
"""Annotates a field of texts, or of one, in which a message stays one; to all others it is a string."""

Text = Annotated[str, KEEPS_MESSAGES]
"""A text that may be a message."""
