"""The catalogues: every message in every language, with what stands in it, and else English."""

import re
from html.parser import HTMLParser
from string import Formatter

import pytest
from babel.messages.catalog import Catalog
from jinja2 import Environment

from registry.bundle.message import Message, Number
from serving.protocol.problems import ProblemResponse
from serving.web.catalogue import Catalogue, catalogue, read_catalogue
from serving.web.extraction import ROOT, TEMPLATES, in_code, in_template, messages
from serving.web.languages import ENGLISH, LANGUAGES
from serving.web.numbers import percent
from serving.web.vocabulary import PROBLEMS

OTHERS = [language for language in LANGUAGES if language != ENGLISH]
NBSP = "\N{NO-BREAK SPACE}"


def placeholders(template):
    return sorted(name for _, name, _, _ in Formatter().parse(template) if name is not None)


def texts(found):
    return (found,) if isinstance(found, str) else tuple(found)


@pytest.fixture(scope="module")
def there():
    """Every message of the code and the templates."""
    return messages()


@pytest.mark.parametrize("language", OTHERS)
def test_every_message_has_a_translation_and_no_other_has(there, language):
    told = {
        one.id if isinstance(one.id, str) else tuple(one.id): one
        for one in read_catalogue(language)
        if one.id
    }
    assert set(told) == there, "run `make catalogues`, then translate what is empty"
    unsaid = [name for name, one in told.items() if not all(texts(one.string)) or one.fuzzy]
    assert not unsaid, f"translate these in serving/web/catalogues/{language}.po"


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_placeholders_of_its_message(language):
    for one in read_catalogue(language):
        if one.id:
            for said in texts(one.string):
                assert placeholders(said) == placeholders(texts(one.id)[-1]), one.id


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_keeps_what_is_code_and_how_it_ends(language):
    for one in read_catalogue(language):
        if one.id:
            english, said = texts(one.id)[-1], texts(one.string)[-1]
            assert sorted(re.findall("`[^`]*`", said)) == sorted(re.findall("`[^`]*`", english)), english
            assert said.endswith(".") == english.endswith("."), english
            assert said == said.strip()


def test_french_has_its_spaces_before_marks():
    for one in read_catalogue("fr"):
        for said in texts(one.string) if one.id else ():
            outside = re.sub("`[^`]*`", "", said)
            assert not re.search(rf"[^{NBSP}][:;?!](\s|$)", outside), said


@pytest.mark.parametrize("language", OTHERS)
def test_per_cent_has_a_space_that_does_not_break(language):
    for one in read_catalogue(language):
        for said in texts(one.string) if one.id else ():
            assert not re.search(rf"[^{NBSP}]%", said), said


class Words(HTMLParser):
    """The words of a template: texts, and attributes that people read."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        read = ("alt", "aria-label", "title", "placeholder", "label")
        self.found += [value for name, value in attributes if value and (name in read or "data-" in name)]

    def handle_data(self, data):
        self.found.append(data)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_says_nothing_by_itself(name):
    text = (ROOT / "serving" / "web" / "templates" / name).read_text(encoding="utf-8")
    html = "".join(value for _, kind, value in Environment().lex(text) if kind == "data")
    said = {word for found in Words(html).found for word in re.findall(r"[^\W\d_]+", found)}
    assert said <= {"dermfed"}


@pytest.mark.parametrize(("n", "said"), [(0, "0 Läsionen"), (1, "1 Läsion"), (412, "412 Läsionen")])
def test_plurals(n, said):
    one, many = "It was calibrated on {n} lesion.", "It was calibrated on {n} lesions."
    assert catalogue("de").say(Message.counted(one, many, n)) == f"Kalibriert wurde an {said}."


def test_french_counts_none_as_one():
    one, many = "It was calibrated on {n} lesion.", "It was calibrated on {n} lesions."
    assert catalogue("fr").say(Message.counted(one, many, 0)).endswith("0 lésion.")


def test_values_are_said_too():
    issue = Message(
        "The picture is too blurred. Wipe the lens, hold the camera still and let it focus on the lesion."
    )
    said = Message("Picture {number} ({kind}): {issue}", number=1, kind=Message("close-up"), issue=issue)
    assert catalogue("de").say(said).startswith("Bild 1 (Nahaufnahme): Das Bild ist zu unscharf.")


@pytest.mark.parametrize(
    ("language", "share", "said"),
    [
        ("en", 0.004, "0.4 %"),
        ("de", 0.004, f"0,4{NBSP}%"),
        ("fr", 0.9996, f"plus de 99,9{NBSP}%"),
        ("es", 0.625, f"62{NBSP}%"),
        ("de", None, "nicht bekannt"),
    ],
)
def test_shares_are_written_as_the_language_does(language, share, said):
    assert catalogue(language).say(percent(share)) == said


def test_numbers_are_grouped_as_the_language_does():
    assert catalogue("de").say(Number("1,234.5")) == "1.234,5"
    assert catalogue("en").say(Number("1,234.5")) == "1,234.5"


def test_what_is_no_message_stays_as_it_is():
    assert catalogue("de").say("Melanoma") == "Melanoma"
    assert catalogue("de").say(Message("")) == ""


@pytest.mark.parametrize("flags", [(), ("fuzzy",)])
def test_a_missing_or_unsure_translation_falls_back_to_english(flags):
    some = Catalog("de")
    some.add("Ask", "Fragen")
    some.add("Why {n}", "Warum {n}" if flags else "", flags=flags)
    told = Catalogue("de", some)
    asked = Message("Why {n}", n=3)
    assert told.say(Message("Ask")) == "Fragen"
    assert told.say(asked) == "Why 3"
    assert not told.knows(asked)
    assert told.knows(Message("Ask"))
    assert not told.knows(Message("Never heard"))
    assert not told.knows("Ask")
    assert catalogue(ENGLISH).knows("Ask")


def kinds_of(problem):
    yield problem
    for kind in problem.__subclasses__():
        yield from kinds_of(kind)


def test_every_problem_is_in_the_vocabulary():
    for kind in kinds_of(ProblemResponse):
        if kind.__module__.startswith("serving."):
            assert kind.name in PROBLEMS, f"add {kind.name!r} to serving/web/vocabulary.py"
            assert PROBLEMS[kind.name].title == kind.title


def test_messages_are_found_in_code():
    code = """
x = Message("one " "whole", n=Message("within"))
y = Message.counted("{n} a", "{n} b", n)
z = [Message(template), other("not this"), Message(TEMPLATES["key"], n="nor this")]
"""
    assert set(in_code(code)) == {"one whole", "within", ("{n} a", "{n} b")}


def test_messages_are_found_in_templates():
    template = (
        '{{ _("a {b}", b=1) }}{% if x %}<i title="{{ _("c") }}">{% endif %}{{ ngettext("d", "e", n, f=2) }}'
    )
    assert set(in_template(template)) == {"a {b}", "c", ("d", "e")}
