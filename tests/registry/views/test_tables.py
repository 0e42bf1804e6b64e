"""Tables on a terminal, and texts of others wherever they are shown: nothing is steered, no line broken."""

import re
import unicodedata
from collections import Counter
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from registry.bundle.labels import UNDECLARED, Coding, Label
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile
from registry.bundle.pictures.rule import PictureRule
from registry.records import Event, Version
from registry.views.card import Entry, entry_json, release_card
from registry.views.card_page import card_page, version_in_short
from registry.views.changes import compare, difference_text
from registry.views.records import event_lines
from registry.views.tables import (
    LONGEST_CELL,
    Cell,
    Facts,
    Row,
    Section,
    Table,
    columns,
    draw,
    lines_of,
    printable,
)
from tests.measured import evaluation_of

ATTACKS = ("a|b", "one\ntwo", "\x1b[2J\x1b]0;title\x07", "<script>alert(1)</script>", "\u202eexe.",
           "\r\x85\u2028", '" onload="x', "[b]bold[/b]", ":smile:")  # fmt: skip
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

# Names that the manifests here have besides, or that mean something: words of our own sources are drawn, too.
NOT_ANY = {"B", "other", "accuracy", UNDECLARED}

hostile = st.text(
    st.one_of(
        st.sampled_from(sorted({*"".join(ATTACKS), *TURNING, "\x00", "\t"})),
        st.characters(exclude_categories=["Cs"]),
    ),
    min_size=1,
    max_size=30,
).filter(lambda text: text not in NOT_ANY)


def attacked(function):
    """With the attacks, and with texts that are made of their like."""
    for attack in ATTACKS:
        function = example(text=attack)(function)
    return settings(max_examples=25, deadline=None)(given(text=hostile)(function))


def version(number, text):
    """A version with the text wherever a bundle may hold one, and its manifest."""
    row = {"n": 20, "accuracy": 0.7, "intervals": {"accuracy": [0.6, 0.8]}}
    made = BundleManifest(
        model="demo",
        file=ModelFile.of(b"graph"),
        labels=(
            Label(code=text, name=text, codings=(Coding(system=text, code=text, display=text),)),
            Label(code="B", name=text * (number + 1)),
        ),
        picture=PictureRule(size=8),
        evaluation=evaluation_of(
            {
                "n": 40,
                "by_subgroup": {text: row, "other": row},
                "by_class": {text: {"n": 20, "recall": 0.5}, "B": {"n": 20, "recall": 0.5}},
                "intersections": {text: {text: {text: row}}},
                "differences": [
                    {"between": [text, "other"], "figure": text, "value": 0.1, "interval": [0.0, 0.2]}
                ],
                "absent": [text],
            }
        ),
        lineage=Lineage(
            job="sha256:" + "0" * 64, recipe=text, data={text: text}, seed=number,
            code_version=text * (number + 1), created=text,
        ),
    )  # fmt: skip
    return Version("demo", number, f"sha256:{number:064d}", made.subgroup, WHEN), made


def shown(text):
    return draw(version_in_short(entry_json(Entry.of(*version(1, text))), text, [("Signed", text)]))


def compared(text):
    pair = [version(1, text), version(2, text)]
    return difference_text(compare(pair, [one for one, _ in pair]))


def happened(text):
    event = Event(
        id=3, time=WHEN, actor=text, kind="promoted", model="demo", alias="production", before=1, release=7,
        versions=(1,), reason=text, gates=None, overridden=False, host=None, details=None,
        previous="", hash="",
    )  # fmt: skip
    return event_lines(event)


class Page(HTMLParser):
    """The elements of a page with the names of their attributes, closed in order, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self.open = Counter(), "", []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements[tag, *(name for name, _ in attrs)] += 1
        self.open += [tag] if tag != "meta" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def obeyed(text):
    """Characters that whoever reads would not see but feel."""
    steering = {"Cc", "Cs", "Zl", "Zp"}
    return [one for one in text if (unicodedata.category(one) in steering and one != "\n") or one in TURNING]


@pytest.mark.parametrize("page", [shown, compared, happened])
@attacked
def test_a_terminal_shows_as_many_lines_and_obeys_nothing(page, text):
    said = page(text)
    assert len(said.splitlines()) == len(page("harmless").splitlines())
    assert obeyed(said) == []
    assert printable(text).strip() in said  # ends of lines have no spaces


@attacked
def test_a_card_has_the_same_elements_and_obeys_nothing(text):
    page, harmless = (card_page(release_card([Entry.of(*version(1, one))])) for one in (text, "harmless"))
    assert Page(page).elements == Page(harmless).elements
    assert obeyed(page) == []
    assert printable(text).strip() in Page(page).text


def test_what_people_write_stays_as_it_is():
    for text in ("a b|c", "Müller’s 10 % – naïve", "皮膚", "می\u200cخواهم", "👩🏽\u200d⚕️", "a\u00a0b", "עור"):
        assert printable(text) == text
        assert columns((text,), [("x",)]).splitlines()[0] == text


def test_what_is_not_seen_is_spelt_out():
    assert printable("a\nb\t\x1b[1m\u202e\ud800\u2028") == r"a\nb\t\x1b[1m\u202e\ud800\u2028"
    assert lines_of(["a\nb", "c"]) == "a\\nb\nc"
    assert "(301 characters)" in columns(("a",), [("x" * (LONGEST_CELL + 1),)])
    assert "characters" not in columns(("a",), [("x" * LONGEST_CELL,)])


TABLE = Table("t", "", ("", "said"), (Row.of("one", Cell("word " * 20 + "end", "sure")), Row.of("two", "no")))


@pytest.mark.parametrize(("terminal", "lines"), [(False, 4), (True, 7)])
def test_a_table_folds_to_the_terminal_and_a_digest_never(monkeypatch, terminal, lines):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", draw(Section.of("title", TABLE))).splitlines()
    assert len(drawn) == lines
    assert all(len(line) <= 40 for line in drawn) is terminal
    assert "sha256:" + "0" * 64 in draw(Section.of("", Facts((("digest", "sha256:" + "0" * 64),))))


def test_a_section_leaves_out_what_is_empty():
    empty = Table("t", "", ("",), ())
    assert Section.of("a", None, "", empty, otherwise="nothing").parts == ("nothing",)
    assert Section.of("a", None, "text", empty, TABLE, otherwise="nothing").parts == ("text", TABLE)
    assert draw(Section.of("a", "text"), Section.of("", TABLE)).startswith("a\ntext\n\n")
