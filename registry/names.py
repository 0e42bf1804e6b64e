"""Valid names of models, aliases, people and keys, reasons, and the errors for unknown names."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TypeVar

from registry.bundle.text import mixed_word, nearest, shown_name, unseen_in
from registry.errors import InvalidName, NotFound

Name = TypeVar("Name", bound=str)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LONGEST = 100
_NEAREST = 5


def check_name(kind: str, name: str) -> str:
    """Validates the name of a model or an alias, both parts of addresses, and returns it.

    Raises:
        InvalidName: it may not.
    """
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{kind} {name!r} is no name; use up to {_LONGEST} letters, digits, `.`, `_` and `-`, "
            "starting with a letter or a digit"
        )
    return name


def check_title(kind: str, title: str) -> str:
    """Validates a name that people read in lists, and returns it.

    It is printable, not blank, not long, and each word is of one script: see `registry.bundle.text`.

    Raises:
        InvalidName: it is none of that.
    """
    if not title.strip() or len(title) > _LONGEST or not title.isprintable() or unseen_in(title):
        raise InvalidName(
            f"{kind} '{shown_name(title)}' is no name; use 1 to {_LONGEST} printable characters"
        )
    if (word := mixed_word(title)) is not None:
        raise InvalidName(
            f"{kind} '{title}' is no name: {word!r} has letters of two alphabets that look alike "
            f"({_letters(word)}); write each word in one"
        )
    return title


def check_reason(text: str | None) -> str | None:
    """A reason on one line, each run of white space as one space; None where nothing is said.

    Raises:
        InvalidName: it holds characters that steer a terminal or are not seen; the first is named.
    """
    line = " ".join((text or "").encode("utf-8", "replace").decode().split())
    if (unseen := unseen_in(line)) is not None:
        character = unseen.encode().decode("unicode_escape")
        called = unicodedata.name(character, "a control character")
        raise InvalidName(
            f"the reason holds {unseen} ({called}), which nobody who reads it would see; write it without"
        )
    return line or None


def choose(kind: str, of: str, given: Iterable[str], allowed: Sequence[Name]) -> tuple[Name, ...]:
    """The scopes of a key, or the roles of a person: each that is given once, in the order of those allowed.

    Raises:
        InvalidName: there is no such one, or none is given.
    """
    asked = set(given)
    for one in sorted(asked - set(allowed)):
        raise InvalidName(f"there is no {kind} {one!r}; {nearest(one, allowed)}")
    if not asked:
        raise InvalidName(f"{of} needs a {kind}; allowed are {', '.join(allowed)}")
    return tuple(one for one in allowed if one in asked)


def not_found(kind: str, name: str, known: Iterable[str], *, of: str = "") -> NotFound:
    """The error for a name that is not among `known`, with the nearest that are."""
    names = sorted(known)
    listed = get_close_matches(name, names, n=_NEAREST, cutoff=0.4) or names[:_NEAREST]
    return _not_found(kind, repr(name), listed, of)


def no_such_version(model: str, number: int, known: Iterable[int]) -> NotFound:
    """The error for a version that the model does not have, with the nearest that it has."""
    return no_such_number("version", number, known, of=f" of model {model!r}")


def no_such_number(kind: str, number: int, known: Iterable[int], *, of: str = "") -> NotFound:
    """The error for a number that is not among `known`, with the nearest that are."""
    listed = sorted(sorted(known, key=lambda one: (abs(one - number), one))[:_NEAREST])
    return _not_found(kind, str(number), [str(one) for one in listed], of)


def _letters(word: str) -> str:
    """The letters of a word that are not ASCII, by their names, if it has ASCII letters; else all of them."""
    letters = [one for one in dict.fromkeys(word) if one.isalpha()]
    telling = [one for one in letters if not one.isascii()]
    return ", ".join(unicodedata.name(one, "a letter without a name") for one in telling[:3])


def _not_found(kind: str, shown: str, listed: list[str], of: str) -> NotFound:
    rest = f"the nearest: {', '.join(listed)}" if listed else f"there is no {kind} yet"
    return NotFound(f"there is no {kind} {shown}{of}; {rest}")


INDEX_FILE = "release.json"
