"""Every command of `dermfed-data` over pictures with names as people, Windows and other systems give them."""

import csv
import io
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from clients.data.cli import app

ROOT = Path(__file__).parents[3]
CONSOLE_SCRIPT = "import sys; from dermfed.commands import data; sys.exit(data())"
NFC, NFD = (unicodedata.normalize(form, "Läsion 2.jpg") for form in ("NFC", "NFD"))
FOLDER = "Klinik Süd – Ärzte; (2)"

PLAIN: dict[str, str | None] = {  # by their names on disk, those in the table; each means exactly one file
    "rf.jpg": "RF.JPG",
    "of.jpg": ".\\of.jpg",
    "Läsion 1.jpg": "Läsion 1.jpg",
    NFD: NFC,
    "a;b,c.jpg": ".\\a;b,c.jpg",
    "-x.jpg": "-x.jpg",
    "皮膚.png": "皮膚.PNG",
    "straße.jpg": "STRASSE.jpg",
    "ＦＵＬＬ.jpg": "ＦＵＬＬ.JPG",
    "%20 $(id) [1] #.jpg": "%20 $(id) [1] #.jpg",
    "it's.jpg": "it's.jpg",
    "=1+1.jpg": "=1+1.jpg",
}
ODD: dict[str, str | None] = {
    **PLAIN,
    "dark.jpg": "DARK.JPG",  # fits this and the next
    "Dark.jpg": None,
    "line\nbreak.jpg": "line\nbreak.jpg",
    "tab\there.jpg": "tab\there.jpg",
    "\u202egpj.jpg": "\u202egpj.jpg",
    "\x1b[31m.jpg": None,  # no table may hold it
    " lead.jpg": " lead.jpg",
    'quote".jpg': 'quote".jpg',
    "back\\slash.jpg": "back\\slash.jpg",
    "a::b.jpg": "a::b.jpg",
    "x.zip::y.jpg": "x.zip::y.jpg",
    "CON.jpg": "con.jpg",
    os.fsdecode(b"\xff\xfe.jpg"): "no such.jpg",
    "x" * 251 + ".jpg": "x" * 300 + ".jpg",
}
TABLES = {"plain": PLAIN, "odd": ODD}
COLUMNS = ("image", "label", "lesion_id", "patient_id", "skin_tone", "skin_tone_scale", "clinic")

JOB = """
name: names
data: {manifest: [manifest.csv], image_size: 12, clients: {by: manifest}}
model: {name: resnet18, weights: none, options: {channels: [4, 8, 16, 32]}}
stages: [{stage: federate, rounds: 1, objective: {name: supervised}, aggregator: {name: fedavg}}]
"""

COMMANDS = {  # each as it is typed in the folder, and its exit codes over the two tables
    "import csv . --out OUT.csv --option table=manifest.csv --option label=label": (0, 2),
    "import csv . --out OUT.csv --option table=manifest.csv --option label=label --present-only": (0, 2),
    "import image-folder .. --out OUT.csv": (0, 2),
    "adapters": (0, 0),
    "check manifest.csv": (0, 1),
    "check manifest.csv --cases": (0, 1),
    "link manifest.csv --out OUT.csv": (0, 0),
    "withdraw manifest.csv --patient P1 --splits job.yaml --out OUT.csv": (0, 0),
    "report manifest.csv --out OUT.html": (0, 0),
    "report manifest.csv --out OUT.html --no-names": (0, 0),
    "describe manifest.csv": (0, 0),
    "describe manifest.csv --by clinic": (0, 0),
    "partition manifest.csv --by column --column clinic --out OUT": (0, 2),
    "partition manifest.csv --by iid --count 2 --out OUT": (0, 0),
    "synth --out OUT --pictures 6 --size 32": (0, 0),
    "tones manifest.csv --by clinic --min-count 1 --replicates 2": (0, 0),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """`folder(table)`: the folder with pictures and that table, in which commands are typed from now on."""
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "40")

    def make(table: str) -> Path:
        made = tmp_path / FOLDER
        made.mkdir()
        for number, name in enumerate(TABLES[table]):
            stream = io.BytesIO()
            pixels = np.random.default_rng(number).integers(256, size=(5, 5, 3), dtype=np.uint8)
            picture = Image.fromarray(pixels).resize((40, 40))
            picture.save(stream, "PNG" if name.endswith("png") else "JPEG")
            with suppress(OSError):  # a name that this system does not take
                (made / name).write_bytes(stream.getvalue())
        lines = [
            (image, ("MEL", "NV")[n % 2], f"L{n}", f"P{n}", str(1 + n % 6), "fitzpatrick", f"{n % 2}{image}")
            for n, image in enumerate(filter(None, TABLES[table].values()))
        ]
        with (made / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *lines])
        (made / "job.yaml").write_text(JOB)
        monkeypatch.chdir(made)
        return made

    return make


def run(words: Sequence[str]) -> Result:
    """Call it; whatever is raised but for an exit goes through."""
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_every_command_is_among_them():
    names = {command.name for command in app.registered_commands}
    assert {words.split()[0] for words in COMMANDS} == names


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_ends_as_documented(words, table, folder):
    folder(table)
    expected = COMMANDS[words][[*TABLES].index(table)]
    for out, more in (("../one", ["--json"]), ("../two", [])):
        ended = run([*words.replace("OUT", out).split(), *more])
        assert (ended.exit_code, ended.stderr if ended.exit_code != expected else "") == (expected, "")
        if more and expected < 2:
            json.loads(ended.stdout)
        assert "\x1b" not in ended.output
        assert "\u202e" not in ended.output


def test_a_table_that_this_system_cannot_spell_is_reported(folder):
    """A name in Latin-1, as old disks have them: the page spells out the letter."""
    table = folder("plain") / "manifest.csv"
    named = table.rename(table.with_name(os.fsdecode(b"M\xfcller.csv")))
    assert run(["check", named.name]).exit_code == 0
    assert run(["report", named.name, "--out", "page.html"]).exit_code == 0
    assert "<h1>M\\udcfcller.csv</h1>" in Path("page.html").read_text(encoding="utf-8")


def test_output_into_a_file_of_few_letters_spells_the_others_out(folder):
    """On Windows a file takes the letters of one code page; 皮膚 is in none of Western Europe."""
    folder("odd")
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", "PYTHONPATH": str(ROOT)}
    for words, said in (("check", "several files fit the name"), ("describe --by clinic", "\\u76ae\\u819a")):
        command, *rest = words.split()
        ended = subprocess.run(
            [sys.executable, "-c", CONSOLE_SCRIPT, command, "manifest.csv", *rest],
            env=environment,
            capture_output=True,
            check=False,
        )
        assert ended.returncode == (1 if command == "check" else 0), ended.stderr
        assert said in ended.stdout.decode("cp1252")
        assert b"Traceback" not in ended.stderr
