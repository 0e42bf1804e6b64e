"""Every messy export through `dermfed-data import` and `check`: imported rightly, or refused with advice."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from clients.data.cli import app
from clients.data.manifest import Manifest
from clients.data.manifest_file import read_manifest
from tests.messy_exports import EXPORTS, TABLE, Imports, MessyExport, Refused

IMPORTED = [export for export in EXPORTS if isinstance(export.expect, Imports)]
REFUSED = [export for export in EXPORTS if isinstance(export.expect, Refused)]

by_name = {"ids": lambda export: export.name}


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def import_export(tmp_path):
    """Write an export and import it; the manifest lies beside it, so that places are the same."""

    def call(export: MessyExport, *words: object) -> Result:
        folder = tmp_path / "export"
        if not folder.exists():
            export.write(folder)
        typed = [
            word
            for name, value in export.options.items()
            for word in ("--option", f"{name}={json.dumps(value)}")
        ]
        return run("import", "csv", folder, "--out", folder / "manifest.csv", *typed, *words)

    return call


def labels(manifest: Manifest) -> dict[str, str]:
    return {row.image: row.label for row in manifest.rows}


@pytest.mark.parametrize("export", IMPORTED, **by_name)
def test_an_export_imports_rightly_and_is_checked(export, import_export, tmp_path):
    expect = export.expect
    answered = import_export(export)
    assert answered.exit_code == 0, answered.stderr
    for words in expect.says:
        assert words in answered.stderr
    path = tmp_path / "export" / "manifest.csv"
    manifest = read_manifest(path)
    assert labels(manifest) == expect.rows
    for image, facts in expect.facts.items():
        (row,) = (row for row in manifest.rows if row.image == image)
        assert {column: row.value(column) for column in facts} == facts
    checked = run("check", path, "--no-near-duplicates", "--json")
    found = json.loads(checked.stdout)
    assert checked.exit_code == (1 if expect.broken else 0), checked.stdout
    broken = {
        image: problem["cause"]
        for problem in found["problems"]
        for image in [problem["text"].split(": ")[0]]
        if problem["kind"] == "picture"
    }
    assert len(broken) == len(found["problems"])
    for cause, images in expect.broken.items():
        for image in images:
            assert broken.pop(image).startswith(cause)
    assert not broken


@pytest.mark.parametrize("export", IMPORTED, **by_name)
def test_nothing_is_dropped_without_a_line(export, import_export, tmp_path):
    """Lines of the table that hold anything are rows, or are counted where they are left out."""
    answered = import_export(export, "--json")
    answer = json.loads(answered.stdout)
    assert all(note in answered.stderr for note in answer["notes"])
    assert answer["pictures"] == len(export.expect.rows)
    assert answer["left_out"] == []
    lines = lines_of(export, tmp_path / "export" / TABLE)
    assert lines == answer["pictures"] + export.expect.left_out

    present = import_export(export, "--json", "--present-only", "--force")
    kept = json.loads(present.stdout)
    manifest = read_manifest(tmp_path / "export" / "manifest.csv")
    expected = export.expect.rows if export.expect.present is None else export.expect.present
    assert labels(manifest) == expected
    left_out = sum(group["count"] for group in kept["left_out"])
    left, unusable = ({group["cause"] for group in kept[name]} for name in ("left_out", "unusable"))
    assert not left & unusable
    assert kept["pictures"] + left_out == answer["pictures"]
    if left_out:
        assert f"{left_out} of {answer['pictures']} lines are left out" in present.stderr
        assert all(f"{group['count']}: {group['cause']}" in present.stderr for group in kept["left_out"])


def lines_of(export: MessyExport, table: Path) -> int:
    """How many lines below the header hold anything, counted without what is tested."""
    content = table.read_bytes()
    mark = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    encoding = export.options.get("encoding") or ("utf-16" if mark else "utf-8-sig")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("cp1252")
    delimiter = next(mark for mark in ";\t," if mark in text.splitlines()[0])
    lines = [cells for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(cells)]
    return len(lines) - 1 - (lines[0][0] == "sep=")


@pytest.mark.parametrize("export", REFUSED, **by_name)
def test_an_export_is_refused_with_what_to_do(export, import_export, tmp_path):
    answered = import_export(export)
    assert answered.exit_code == 2, answered.stderr
    for words in export.expect.says:
        assert words in answered.stderr
    assert "Traceback" not in answered.stderr
    assert not (tmp_path / "export" / "manifest.csv").exists()
