"""No table of any command cuts a header or a name: on 80 columns, on 60, or on fewer."""

import io
from pathlib import Path

import pytest
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clients.data.quality import Cell, Description, tabulate
from clients.data.tones import ToneCheck, tone_table
from personalization.calibration.tone_ranges import agreement, count_angles
from training import printing
from training.jobs.disclosure_report import Seen
from training.jobs.preflight import MatrixRow
from training.jobs.recipes import print_recipes, read_recipes
from training.printing import CLIENTS, clients_table, matrix_table
from training.terminal_table import print_table

ROOT = Path(__file__).parents[2]
ROOMS = ("clients", "dermfed", "personalization", "registry", "serving", "training")
HEADERS = ["disease", *(f"clinic-{number}" for number in range(9)), "all"]


def printed(table, width):
    shown = io.StringIO()
    print_table(table, Console(file=shown, width=width))
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
def test_where_not_all_words_have_room_each_cell_gets_a_line(width, settings):
    text = printed(counts(title="by clinic", caption="nine clinics", **settings), width)
    assert [text.count(name) for name in HEADERS] == [1] * len(HEADERS)
    assert text.index("by clinic") < text.index("clinic-0") < text.index("clinic-8") < text.index("36")


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


CENSUS = [
    MatrixRow("a-hospital-of-a-long-name", "calibration", "fitzpatrick 1 and 2",
              {"seborrheic-keratosis": 12345, "melanoma": 3}, 250, True)
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
        (
            lambda: print_table(matrix_table(CENSUS[0].client, CENSUS, "pictures")),
            ["a-hospital-of-a-long-name", "subgroup", "patients", "12345"],
        ),
        (
            lambda: printing.print_seen(
                [Seen("weights", "trained weights", "its model", "all", "privacy.secure_aggregation")]
            ),
            ["trained", "weights"],
        ),
        (lambda: printing.print_probes(PROBES), ["linear", "undeclared", "sensitivity", "specificity"]),
        (lambda: print_recipes(as_json=False), [recipe.name for recipe in read_recipes()]),
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
    hands_on = {"clients/data/quality.py", "clients/data/tones.py"}
    hands_on |= {"personalization/report/comparison.py"}
    hands_on |= {"training/terminal_table.py"}
    hands_on |= {"registry/views/tables.py"}  # folds by itself, see tests/registry/views/test_tables.py
    made = {
        str(path.relative_to(ROOT)): text
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "\nfrom rich.table import" in (text := path.read_text())
    }
    assert hands_on <= made.keys()
    assert {name for name, text in made.items() if "print_table(" not in text} == hands_on - {
        "training/terminal_table.py"
    }
    assert not [name for name, text in made.items() if "print(table)" in text.replace("print_table", "")]


@pytest.mark.parametrize(
    "name", ["[/b]", "ward[a-z]", "[red]x[/red]", ":heart:", "\\[x]", "a\x1b[2Jb", "a\x9bb"]
)
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("text", [str, Text])
def test_what_a_table_says_is_no_markup_and_steers_no_terminal(name, wide, text):
    seen = name.replace("\x1b", "\\x1b").replace("\x9b", "\\x9b")
    table = Table(title=text(f"of {name}"), caption=text(f"by {name}"))
    for number in range(1 if wide else 9):
        table.add_column(text(f"{name}{number}"))
    table.add_row(*[text(name)] * len(table.columns))
    shown = printed(table, 200 if wide else 40)
    assert f"of {seen}" in shown
    assert f"by {seen}" in shown
    assert shown.count(f"{seen}0") >= 1
    assert shown.count(seen) >= 2 * len(table.columns) + 2
    assert not {"\x1b", "\x9b"} & set(shown)


@pytest.mark.parametrize("name", ["[/b]", "ward [a-z]", "ward\x1b[2Jx"])
def test_what_check_and_runs_print_of_names_is_no_markup(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    of_clients = [
        MatrixRow(f"{name}{number}", "train", name, {name: number}, 3, True) for number in range(CLIENTS + 1)
    ]
    tables = [
        matrix_table(name, [MatrixRow(name, name, name, {name: 3}, 3, True)], "pictures"),
        clients_table(of_clients, "pictures"),
        tone_table(ToneCheck(name, agreement(count_angles([20.0], ["1"], "fitzpatrick"), None), {}, ())),
        *tabulate(Description(1, 1, 1, name, {Cell("train", "", name, name): 1}, {}, {})),
    ]
    for table in tables:
        print_table(table)
    printing.print_seen([Seen("x", name, name, name, name)])
    printing.print_probes([{"name": "probe", "facts": {"linear": {**FOUND, "by_subgroup": {name: FOUND}}}}])
    text = capsys.readouterr().out
    shown = name.replace("\x1b", "\\x1b")
    assert "\x1b" not in text
    assert text.count(shown) == 4 + (CLIENTS + 1) + 1 + 3 + 4 + 1
