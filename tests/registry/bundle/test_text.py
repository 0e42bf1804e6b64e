"""What is spelt out: every character of Unicode that steers or is not seen, and no letter."""

import sys
import unicodedata

import pytest

from registry.bundle.text import alike, mixed_word, on_one_line, shown, shown_name, unseen_in

# Marks of format that have a glyph: of Arabic, Syriac and Kaithi numbers and of hieroglyphs.
DRAWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
EVERY = [chr(code) for code in range(sys.maxunicode + 1)]


def test_no_control_mark_of_format_or_character_without_a_glyph_is_forgotten():
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    kept = [
        one for one in EVERY if unicodedata.category(one) in hidden and on_one_line(f"a{one}") == f"a{one}"
    ]
    assert [hex(ord(one)) for one in kept if ord(one) not in DRAWN] == []


def test_letters_digits_signs_and_spaces_stay():
    seen = {"Ll", "Lu", "Lt", "Lo", "Lm", "Nd", "No", "Po", "Sm", "Sc", "So", "Zs"}
    spelt = [one for one in EVERY if unicodedata.category(one) in seen and on_one_line(one) != one]
    assert spelt == ["\u115f", "\u1160", "\u3164", "\uffa0"]  # fillers: letters without a glyph


@pytest.mark.parametrize(
    ("text", "first"), [("a\u200bb", r"\u200b"), ("a\nb", r"\n"), ("می\u200cخواهم", None)]
)
def test_the_first_that_is_not_seen_is_named(text, first):
    assert unseen_in(text) == first


def test_of_a_long_text_begin_end_and_length_are_shown():
    assert shown("x" * 4000) == "x" * 4000
    assert (
        shown("b" + "x" * 100_000 + "e") == "b" + "x" * 2999 + " … (100,002 characters) … " + "x" * 999 + "e"
    )
    assert shown_name("\n" * 101) == r"\n" * 75 + " … (101 characters) … " + r"\n" * 25


@pytest.mark.parametrize(
    ("name", "word"),
    [("dаrk", "dаrk"), ("type dаrk 2", "dаrk"), ("темные dark", None), ("V型", None), ("β-dark", None)],
)
def test_a_word_is_of_one_alphabet(name, word):
    assert mixed_word(name) == word


@pytest.mark.parametrize(
    ("one", "other", "cased", "said"),
    [("A", "a", False, True), ("A", "a", True, False), ("A", "А", True, True), ("l", "I", False, False),
     ("dark", "dark", False, False)],
)  # fmt: skip
def test_names_that_people_take_for_one(one, other, cased, said):
    assert alike(one, other, cased=cased) is said
