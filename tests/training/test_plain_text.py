"""What names of others may do to a terminal: nothing."""

import io

import pytest
from rich.console import Console

from registry.bundle.text import on_one_line, printable
from training import run
from training.progress import Progress

STEERING = {
    "\x1b[2J": r"\x1b[2J",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "\x9b31m": r"\x9b31m",
    "a\rb": r"a\rb",
    "a\x08b": r"a\x08b",
    "a\x7fb": r"a\x7fb",
    "a\x0bb": r"a\x0bb",
    "gpj.\u202eexe": r"gpj.\u202eexe",
    "a\u2028b": r"a\u2028b",
    "\udce9.jpg": r"\udce9.jpg",
}


@pytest.mark.parametrize("text", STEERING)
def test_what_steers_is_spelt_out(text):
    assert printable(text) == on_one_line(text) == STEERING[text]


def test_lines_stay_but_on_one_line():
    assert printable("a\n\tb") == "a\n\tb"
    assert on_one_line("a\n\tb") == r"a\n\tb"


@pytest.mark.parametrize("name", ["ward\x1b[2Jx [/b]", "x\ry [red]"])
def test_what_is_said_and_logged_steers_nothing(name, capsys):
    seen = name.replace("\x1b", "\\x1b").replace("\r", "\\r")
    run.say(f"{name}\nsecond", style="red")
    assert capsys.readouterr().err == f"{seen}\nsecond\n"
    shown = io.StringIO()
    Progress(Console(file=shown)).log(name)
    assert shown.getvalue() == f"{seen}\n"


def test_what_is_shown_in_place_steers_nothing():
    shown = io.StringIO()
    console = Console(file=shown, width=80)
    progress = Progress(console)
    progress.begin("ward\x1b[2Jx\ny", 2)
    progress.advance(1, "of\x9bz [/b]")
    console.print(progress._bars.get_renderable())
    assert "ward\\x1b[2Jx\\ny" in shown.getvalue()
    assert "of\\x9bz [/b]" in shown.getvalue()
    assert not {"\x1b", "\x9b"} & set(shown.getvalue())
