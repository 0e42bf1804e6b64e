"""Outcomes as a file for whoever knows the pictures: as they stand now, and no fact about a person."""

import csv
import io
import stat
from datetime import date

from typer.testing import CliRunner

from registry.cli.outcomes import app
from registry.outcomes.intake import EXPORTED, current_outcomes, write_outcomes
from registry.outcomes.records import Answering, Outcome
from registry.outcomes.store import ANYBODY, OutcomeStore
from tests.registry.kept_answers import ANSWERING, kept_answer

OTHER = Answering("other", 4, "dark", "dark", "", (("benign", False), ("malignant", True)))
DAY = date(2026, 3, 31)


def given(store: OutcomeStore):
    """Four answers: with an outcome, with one that was corrected, with one taken back, and with none."""
    answers = [kept_answer(), kept_answer(), kept_answer(answering=OTHER, label="benign"), kept_answer()]
    store.record(answers)
    first, second, third, _ = (one.id for one in answers)
    assert store.give(
        [
            Outcome(first, "MEL", "histopathology", DAY),
            Outcome(second, "NV", "follow-up", DAY),
            Outcome(second, "BCC", "histopathology", DAY, corrects=True),
            Outcome(third, "malignant", "dermatologist", DAY),
            Outcome(third, None, "dermatologist", DAY),
        ],
        ANYBODY,
    ) == ["new", "new", "corrected", "new", "withdrawn"]
    return first, second, third


def test_each_outcome_is_exported_as_it_stands(store):
    first, second, third = given(store)
    file = io.StringIO()
    assert write_outcomes(current_outcomes(store), file) == 3
    assert list(csv.reader(io.StringIO(file.getvalue()))) == [
        list(EXPORTED),
        [first, "MEL", "histopathology", "2026-03-31", "demo", "1"],
        [second, "BCC", "histopathology", "2026-03-31", "demo", "1"],
        [third, "", "dermatologist", "2026-03-31", "other", "4"],
    ]
    assert [one.answer for one in current_outcomes(store, "other")] == [third]
    assert ANSWERING.subgroup not in file.getvalue()  # nor any other fact about a person


def test_the_file_is_its_owners_alone_and_replaces_none(tmp_path):
    url, path = f"sqlite:///{tmp_path / 'outcomes.db'}", tmp_path / "outcomes.csv"
    with OutcomeStore.open(url) as store:
        given(store)
    found = CliRunner().invoke(app, ["export", str(path), "--url", url])
    assert (found.exit_code, found.stdout) == (0, f"{path}: 3 outcomes\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = path.read_text()
    again = CliRunner().invoke(app, ["export", str(path), "--url", url])
    assert again.exit_code != 0
    assert path.read_text() == written
    assert CliRunner().invoke(app, ["export", "-", "--url", url]).stdout == written
