"""No table of any command cuts a header or a name: on 80 columns, on 60, or on fewer."""

import ast
import io
from pathlib import Path

import pytest
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from training import run
from training.jobs.recipes import read_recipes
from training.jobs.who_sees_what import Seen
from training.terminal_table import print_table

ROOT = Path(__file__).parents[2]
ROOMS = ("clients", "dermfed", "personalization", "registry", "serving", "training")
HEADERS = ["disease", *(f"clinic-{number}" for number in range(9)), "all"]


def printed(table, width, **how):
    shown = io.StringIO()
    print_table(table, Console(file=shown, width=width), **how)
    lines = shown.getvalue().splitlines()
    assert "…" not in shown.getvalue()
    assert max(map(len, lines)) <= width
    return shown.getvalue()


def counts(**settings):
    table = Table(*HEADERS, **settings)
    table.add_row("seborrheic keratosis", *(str(number) for number in range(9)), "36")
    return table


@pytest.mark.parametrize("width", [80, 60, 40])
@pytest.mark.parametrize("settings", [{}, {"box": SIMPLE}, {"box": None, "pad_edge": False}])
def test_columns_that_do_not_fit_go_below_with_the_first_one_again(width, settings):
    text = printed(counts(title="by clinic", caption="nine clinics", **settings), width, in_blocks=True)
    tables = text.count("disease")
    assert tables > 1
    assert all(text.count(name) == 1 for name in HEADERS[1:])
    assert text.count("seborrheic") == tables
    assert [f"by clinic ({number} of {tables})" in text for number in range(1, tables + 1)] == [True] * tables
    assert text.count("nine clinics") == 1
    assert text.index("nine clinics") > text.index("36")


def test_what_fits_is_printed_as_it_is():
    shown = io.StringIO()
    Console(file=shown, width=140).print(counts())
    assert printed(counts(), 140, in_blocks=True) == shown.getvalue()
    assert printed(counts(), 140) == shown.getvalue()


@pytest.mark.parametrize("width", [80, 60, 20])
def test_in_one_table_long_words_are_folded_and_the_most_text_gets_the_most_room(width):
    table = Table("what is sent", "what holds")
    table.add_column("name", no_wrap=True)
    table.add_row("weights", "in the clear " * 20 + "privacy.secure_aggregation", Text("n" * 30))
    text = printed(table, width)
    cells = text.replace("\n", " ").replace("│", " ").split()
    assert sum(cell.count("n") for cell in cells if set(cell) == {"n"}) == 30
    if width == 80:
        assert "privacy.secure_aggregation" in cells


def test_a_table_stays_as_it_is():
    table = counts()
    printed(table, 40, in_blocks=True)
    printed(table, 40)
    assert [column.width for column in table.columns] == [None] * len(HEADERS)
    assert [column.header for column in table.columns] == HEADERS


CENSUS = [
    {"client": "a-hospital-of-a-long-name", "split": "calibration", "subgroup": "fitzpatrick 1 and 2",
     "label": "seborrheic-keratosis", "n": 12345}
]  # fmt: skip
FIGURES = {
    "malignancy_auroc": 0.81,
    "malignant_sensitivity": 0.7,
    "malignant_specificity": 0.6,
    "macro_f1": 0.5,
}
FOUND = {
    "n": 12345,
    **FIGURES,
    "intervals": {name: [0.1234, 0.9876] for name in FIGURES},
    "by_subgroup": {},
}
PROBES = [{"name": "probe", "facts": {"linear": {**FOUND, "by_subgroup": {"undeclared tones": FOUND}}}}]


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize(
    ("show", "whole"),
    [
        (lambda: run.print_census(CENSUS, [], as_json=False), ["client", "subgroup", "pictures", "12345"]),
        (
            lambda: run.print_seen(
                [Seen("weights", "trained weights", "its model", "all", "privacy.secure_aggregation")]
            ),
            ["trained", "weights"],
        ),
        (lambda: run.print_probes(PROBES), ["linear", "undeclared", "sensitivity", "specificity"]),
        (lambda: run.print_recipes(as_json=False), [recipe.name for recipe in read_recipes()]),
    ],
    ids=["census", "who sees what", "probes", "recipes"],
)
def test_what_training_prints_cuts_nothing(show, whole, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    show()
    text = capsys.readouterr().out
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= columns
    assert [name for name in whole if name not in text] == []


def test_every_table_is_printed_where_none_is_cut():
    """A module that makes a table of rich prints it by `print_table`, or hands it to one that does."""
    hands_on = {"clients/data/inspect/describe.py", "clients/data/inspect/tone_check.py"}
    hands_on |= {"personalization/report/comparison.py", "training/progress.py", "training/terminal_table.py"}
    made = {
        str(path.relative_to(ROOT)): path.read_text()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if any(
            isinstance(node, ast.ImportFrom) and node.module == "rich.table"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    assert hands_on <= made.keys()
    assert {name for name, text in made.items() if "print_table(" not in text} == hands_on - {
        "training/terminal_table.py"
    }
    assert not [name for name, text in made.items() if "print(table)" in text.replace("print_table", "")]
