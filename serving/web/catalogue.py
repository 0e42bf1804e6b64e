"""What a message is in another language: the catalogues of `catalogues/`, read as they are.

The files are gettext's, `de.po`, which translators have tools for. They are read when the first page needs
one: nothing has to be compiled. A message without a translation, or whose translation is marked as unsure
(`fuzzy`), stays English.
"""

from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files
from io import BytesIO
from typing import Final

from babel import Locale
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import get_decimal_symbol, get_group_symbol

from registry.bundle.message import Message, Number
from serving.web.languages import ENGLISH

FOLDER: Final = files("serving.web") / "catalogues"


class Catalogue:
    """The translations of one language."""

    def __init__(self, language: str, translated: Catalog | None) -> None:
        """Takes a catalogue's file as it was read; that of English is none."""
        self._translations = NullTranslations() if translated is None else _compiled(translated)
        self._known = None if translated is None else _known(translated)
        locale = Locale.parse(language)
        self._marks = str.maketrans({".": get_decimal_symbol(locale), ",": get_group_symbol(locale)})

    def say(self, text: str) -> str:
        """A text in this language: a message translated, its values too; any other as it is."""
        if isinstance(text, Number):
            return text.translate(self._marks)
        if not isinstance(text, Message):
            return text
        template = self._template(text)
        if not text.values:
            return template
        values = {
            name: self.say(value) if isinstance(value, str) else value for name, value in text.values.items()
        }
        return template.format_map(values)

    def knows(self, text: str) -> bool:
        """Whether a text can be said in this language; values that are no messages belong to all of them."""
        if self._known is None:
            return True
        if not isinstance(text, Message) or text.template not in self._known:
            return False
        return all(self.knows(value) for value in text.values.values() if isinstance(value, Message))

    def _template(self, text: Message) -> str:
        if text.many is not None:
            return self._translations.ngettext(text.template, text.many, text.n)
        return self._translations.gettext(text.template) if text.template else ""


@cache
def catalogue(language: str) -> Catalogue:
    """The catalogue of one of `LANGUAGES`; that of English says everything as it is."""
    return Catalogue(language, None if language == ENGLISH else read_catalogue(language))


def read_catalogue(language: str) -> Catalog:
    """A catalogue as its file has it."""
    with (FOLDER / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def _compiled(translated: Catalog) -> GNUTranslations:
    compiled = BytesIO()
    write_mo(compiled, translated)
    compiled.seek(0)
    return GNUTranslations(compiled)


def _known(translated: Catalog) -> frozenset[str]:
    """The messages that are translated; of one that counts things, the template for one."""
    told = (one for one in translated if one.id and one.string and not one.fuzzy)
    return frozenset(one.id if isinstance(one.id, str) else one.id[0] for one in told)
