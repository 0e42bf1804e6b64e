"""A sentence as it comes from a worker: with its template, so that a page can say it in another language.

A worker may have been taken over, so a template is taken only where its placeholders are plain names: a
format of Python's can ask for the insides of a value, or for a gigabyte of blanks.
"""

import re
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from registry.bundle.frozen import Frozen
from registry.bundle.message import Message, Number

LONGEST: Final = 1000
"""Characters of a sentence, and of each of its values."""

_PLAIN: Final = re.compile(r"(?:[^{}]|\{[a-z_]{1,40}\})*")
_MOST_VALUES: Final = 10

Text = Annotated[str, Field(max_length=LONGEST)]


class Value(Frozen):
    """A value in a sentence.

    Attributes:
        text: as it is shown.
        number: whether it is a number whose marks another language writes otherwise.
        is_message: whether it is a word of the vocabulary.
    """

    model_config = ConfigDict(strict=True)

    text: Text
    number: bool = False
    is_message: bool = False


class Said(Frozen):
    """A sentence.

    Attributes:
        text: in English.
        template: what it was made of; None where it is no message.
        values: what stands in the placeholders, by their names.
    """

    model_config = ConfigDict(strict=True)

    text: Text
    template: Text | None = None
    values: dict[str, Value] = Field(default_factory=dict, max_length=_MOST_VALUES)

    @classmethod
    def of(cls, text: str) -> "Said":
        """What is sent of a sentence; of one that counts things, or is too long, the English alone."""
        if not isinstance(text, Message) or text.many is not None or len(text) > LONGEST:
            return cls(text=str(text)[:LONGEST])
        values = {
            name: Value(
                text=str(value)[:LONGEST],
                number=isinstance(value, Number),
                is_message=isinstance(value, Message),
            )
            for name, value in text.values.items()
        }
        if len(values) > _MOST_VALUES or len(text.template) > LONGEST:
            return cls(text=str(text))
        return cls(text=str(text), template=text.template, values=values)

    def message(self) -> str:
        """The sentence again; the English alone where its template is not plain."""
        template = self.template
        if template is None or _PLAIN.fullmatch(template) is None:
            return self.text
        values = {name: _value(value) for name, value in self.values.items()}
        if set(re.findall(r"\{([a-z_]+)\}", template)) - values.keys():
            return self.text
        made = Message(template, **values)
        return made if len(made) <= LONGEST else self.text


def _value(value: Value) -> str:
    if value.number:
        return Number(value.text)
    # As a template a text has no placeholders: one in it is not looked for.
    if value.is_message and not {"{", "}"} & set(value.text):
        return Message(value.text)
    return value.text
