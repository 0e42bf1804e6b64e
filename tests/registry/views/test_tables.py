"""Tables on a terminal; what texts of others do to any view is tried in tests/registry/cli."""

import re

import pytest

from registry.bundle.text import on_one_line
from registry.views.tables import LONGEST_CELL, Cell, Facts, Row, Section, Table, columns, draw, lines_of


def test_what_people_write_stays_as_it_is():
    for text in ("a b|c", "Müller’s 10 % – naïve", "皮膚", "می\u200cخواهم", "👩🏽\u200d⚕️", "a\u00a0b", "עור"):
        assert on_one_line(text) == text
        assert columns((text,), [("x",)]).splitlines()[0] == text


def test_what_is_not_seen_is_spelt_out_and_nothing_is_markup():
    assert on_one_line("a\nb\t\x1b[1m\u202e\ud800\u2028") == r"a\nb\t\x1b[1m\u202e\ud800\u2028"
    assert lines_of(["a\nb", "c"]) == "a\\nb\nc"
    assert "(301 characters)" in columns(("a",), [("x" * (LONGEST_CELL + 1),)])
    assert "characters" not in columns(("a",), [("x" * LONGEST_CELL,)])
    marked = "[b]bold[/b] :smile:"
    drawn = draw(
        Section.of(marked, marked, Facts(((marked, marked),)), Table("", (marked,), (Row.of(marked),)))
    )
    assert drawn.count(marked) == 6


WIDE = Row.of("one", Cell("word " * 20 + "0123456789" * 3, "sure"), "(0.800 to 0.950)")
TABLE = Table("", ("", "said", "interval"), (WIDE, Row.of("two", "no", "")))


@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_folds_to_the_terminal_between_words_and_a_digest_never(monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", draw(Section.of("title", TABLE))).splitlines()
    assert (len(drawn) > 4, all(len(line) <= 60 for line in drawn)) == (terminal, terminal)
    assert any("0123456789" * 3 in line for line in drawn)
    monkeypatch.setenv("COLUMNS", "20")  # too narrow for the words: lines are longer
    drawn = draw(Section.of("", TABLE, Facts((("digest", "sha256:" + "0" * 64),))))
    assert "0123456789" * 3 in drawn
    assert "sha256:" + "0" * 64 in drawn


def test_a_section_leaves_out_what_is_empty():
    empty = Table("", ("",), ())
    assert Section.of("a", None, "", empty, otherwise="nothing").parts == ("nothing",)
    assert Section.of("a", None, "text", empty, TABLE, otherwise="nothing").parts == ("text", TABLE)
    assert draw(Section.of("a", "text"), Section.of("", TABLE)).startswith("a\ntext\n\n")
