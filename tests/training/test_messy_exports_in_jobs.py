"""Every messy export in a job: refused with what to do, or what was dropped is told everywhere."""

import html
import json

import pytest

from clients.data.adapters.table import make_adapter
from clients.data.output import plain_notes
from clients.data.synthetic import write_synthetic
from clients.data.taxonomy import TAXONOMY
from tests.messy_exports import EXPORTS, Imports, Refused, picture

READ = [export for export in EXPORTS if isinstance(export.expect, Imports)]
DROPPED = [export for export in READ if export.expect.broken or export.expect.left_out]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A hospital whose pictures are all there, so that there is enough to train on."""
    folder = tmp_path_factory.mktemp("sound")
    write_synthetic(folder, pictures=60, size=32, seed=4)
    return folder / "manifest.csv"


@pytest.fixture
def job_of(sound, tmp_path, tiny, job_file):
    """A job on that hospital and on a messy export, whose broken pictures are skipped."""

    def write(export):
        folder = export.write(tmp_path / "export")
        labels = export.expect.rows.values() if isinstance(export.expect, Imports) else ()
        known = {label: label if label in TAXONOMY else None for label in labels if label}
        data = {
            "sources": [
                {"name": "sound", "manifest": str(sound)},
                {
                    "name": "messy",
                    "adapter": "csv",
                    "folder": str(folder),
                    "options": dict(export.options),
                    **({"label_map": known} if None in known.values() else {}),
                },
            ],
            "label_map": "malignancy",
            "image_size": 16,
            "clients": {"by": "iid", "count": 2},
            "split": tiny["data"]["split"],
            "on_broken": "skip",
        }
        return job_file({**tiny, "data": data, "stages": [{**tiny["stages"][0], "rounds": 1}]})

    return write


def dropped_by(expect):
    """The pictures of an export that a job does not use: they are missing or broken, or of no known label."""
    broken = {image for images in expect.broken.values() for image in images}
    return broken | {image for image, label in expect.rows.items() if label and label not in TAXONOMY}


def model_notes(export, folder, to_owner=True):
    """What must be told of what reading an export took for granted, and of the pictures that it lacks."""
    notes = make_adapter("csv", export.options).manifest(folder).notes
    words = list(notes if to_owner else plain_notes(notes))
    if export.expect.left_out:
        assert any(said in note for said in export.expect.says for note in words), "lines left out are told"
    if dropped := len(dropped_by(export.expect)):
        words.append(f"{dropped} of {60 + len(export.expect.rows)} pictures are not used: ")
    return words


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export.name)
def test_check_refuses_an_export_or_tells_what_was_taken_for_granted_and_dropped(
    train_command, job_of, export, tmp_path
):
    ended = train_command("--check", job_of(export))
    if isinstance(export.expect, Refused):
        assert ended.code == 2
        for word in export.expect.says:
            assert word in ended.err
        return
    assert ended.code == 0, ended.err
    for word in model_notes(export, tmp_path / "export"):
        assert word in ended.out


@pytest.mark.parametrize("export", DROPPED[::3], ids=lambda export: export.name)
def test_what_is_dropped_is_in_the_log_the_report_and_the_summary(train_command, job_of, export, tmp_path):
    ended = train_command(job_of(export), "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    page = html.unescape((tmp_path / "run" / "report.html").read_text())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    notes = "\n".join(summary["notes"])
    for word in model_notes(export, tmp_path / "export"):
        assert word in ended.err, f"the log does not tell: {word}"
    for word in model_notes(export, tmp_path / "export", to_owner=False):
        assert word in page, f"the report does not tell: {word}"
        assert word in notes, f"the summary does not tell: {word}"
    unused = summary["unused"]["all"]
    assert unused["listed"] == 60 + len(export.expect.rows)
    assert sum(unused["not_used"].values()) == len(dropped_by(export.expect))


def test_what_is_handed_on_quotes_nothing_of_the_table(train_command, sound, tiny, job_file, tmp_path):
    """Patients in file names, words with apostrophes, an encoding and another case."""
    folder = tmp_path / "Praxis Meier"
    folder.mkdir()
    rows = ["Bild;Diagnose;Fall;Ort"]
    for place, label in enumerate(("Melanom Fr. O'Brien", "melanom fr. o'brien", "Melanom Fr. O'Brien")):
        (folder / f"Anna Schmidt, geb. 1970_{place}.jpg").write_bytes(picture(place))
        rows.append(f"Anna Schmidt, geb. 1970_{place}.JPG;{label};0{place + 1}. Jan;d'H\u00e9rv\u00e9")
    (folder / "Meier.csv").write_bytes("\r\n".join(rows).encode("cp1252"))
    options = {"table": "Meier.csv", "image": "Bild", "label": "Diagnose", "lesion_id": "Fall", "site": "Ort"}
    messy = {"name": "messy", "adapter": "csv", "folder": str(folder), "options": options}
    messy["label_map"] = {"Melanom Fr. O'Brien": None, "melanom fr. o'brien": "MEL"}
    data = {
        "sources": [{"name": "sound", "manifest": str(sound)}, messy],
        **{key: tiny["data"][key] for key in ("label_map", "split", "image_size")},
        "clients": {"by": "iid", "count": 2},
    }
    job = job_file({**tiny, "data": data, "stages": [{**tiny["stages"][0], "rounds": 1}]})
    words = ("Anna", "Schmidt", "1970", "Brien", "brien", "rv\u00e9", "01. Jan", "Meier")
    ended = train_command("--check", job, "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    for word in ("Anna", "rv\u00e9"):
        assert word in ended.out, "whoever holds the pictures is told"
    assert train_command(job, "--out", tmp_path / "run").code == 0
    for place in ("report.html", "summary.json", "check.json"):
        text = html.unescape((tmp_path / "run" / place).read_text())
        assert [word for word in words if word in text or word in json.dumps(text)] == []
        assert "named with other case" in text


def test_there_are_thirty_exports_and_some_of_them_drop_something():
    assert len(EXPORTS) >= 30
    assert len(DROPPED) >= 6
