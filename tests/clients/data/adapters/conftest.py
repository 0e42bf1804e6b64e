import csv
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import pytest
from PIL import Image
from typer.testing import CliRunner

from clients.data.adapters.table import make_adapter
from clients.data.cli import app
from clients.data.manifest import Manifest
from clients.data.manifest_file import read_manifest, write_manifest

Publish = Callable[..., Path]
Import = Callable[..., Manifest]


def lines(path: Path) -> list[dict[str, str]]:
    """The lines of a published table."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def tones(manifest: Manifest) -> list[tuple[str, str]]:
    """Each row's tone and its scale."""
    return [(row.skin_tone, row.skin_tone_scale) for row in manifest.rows]


def drawn(number: int, name: str) -> bytes:
    """A picture of one colour, its own for each number."""
    content = io.BytesIO()
    kind = "PNG" if PurePosixPath(name).suffix == ".png" else "JPEG"
    Image.new("RGB", (8, 8), (40 * number % 256, 90, 7 * number % 256)).save(content, format=kind)
    return content.getvalue()


@pytest.fixture
def published(tmp_path):
    """Write tables and drawn pictures into a folder, as a publisher would give them out."""

    def write(tables: Mapping[str, str], pictures: Sequence[str]) -> Path:
        folder = tmp_path / "published"
        folder.mkdir(exist_ok=True)
        for name, content in tables.items():
            (folder / name).write_text(content)
        for number, name in enumerate(pictures):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(drawn(number, name))
        return folder

    return write


@pytest.fixture
def imported(tmp_path):
    """What an adapter makes, written and read again, so that the manifest's own rules hold for it."""

    def read(name: str, folder: Path, **options: object) -> Manifest:
        write_manifest(make_adapter(name, options).manifest(folder), tmp_path / "out.csv")
        return read_manifest(tmp_path / "out.csv")

    return read


@pytest.fixture
def import_command(tmp_path):
    """`dermfed-data import`, then `dermfed-data check`, as people type them; gives the manifest."""

    def call(name: str, folder: Path, **options: object) -> Manifest:
        out = str(tmp_path / "manifest.csv")
        words = ["import", name, str(folder), "--out", out]
        for option, value in options.items():
            words += ["--option", f"{option}={json.dumps(value)}"]
        answered = CliRunner().invoke(app, words)
        assert answered.exit_code == 0, answered.stderr
        checked = CliRunner().invoke(app, ["check", out])
        assert checked.exit_code == 0, checked.stdout
        return read_manifest(tmp_path / "manifest.csv")

    return call


@pytest.fixture
def real_table(real_data):
    """The place of a real table, by its name in the folder of real data."""

    def find(name: str) -> Path:
        if not (real_data / name).is_file():
            pytest.skip(f"{real_data} has no {name}")
        return real_data / name

    return find


@pytest.fixture
def as_published(tmp_path, real_table):
    """A folder with real tables, and empty files for their pictures in a zip file."""

    def link(tables: Sequence[str], pictures: Sequence[str]) -> Path:
        folder = tmp_path / "real"
        folder.mkdir()
        for table in tables:
            (folder / Path(table).name).symlink_to(real_table(table))
        with zipfile.ZipFile(folder / "images.zip", "w") as archive:
            for name in pictures:
                archive.writestr(name, b"")
        return folder

    return link
