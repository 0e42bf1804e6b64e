import io

import pytest
from rich.console import Console

from training.errors import CheckpointError
from training.journal import Journal


def test_lines_come_back_and_what_followed_a_checkpoint_is_cut(tmp_path):
    journal = Journal(tmp_path / "run" / "metrics.jsonl", Console(quiet=True))
    assert journal.size == 0
    journal.write({"round": 1, "loss": 0.5, "clinic": "Zürich"})
    size = journal.size
    journal.write({"round": 2})
    assert [line["round"] for line in journal.lines()] == [1, 2]
    journal.cut(size)
    journal.write({"round": 2, "again": True})
    assert journal.lines() == [{"round": 1, "loss": 0.5, "clinic": "Zürich"}, {"round": 2, "again": True}]


def test_a_journal_that_is_opened_again_goes_on(tmp_path):
    Journal(tmp_path / "metrics.jsonl").write({"round": 1})
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.write({"round": 2})
    assert [line["round"] for line in journal.lines()] == [1, 2]


def test_elsewhere_than_on_a_terminal_progress_is_plain_lines(tmp_path):
    shown = io.StringIO()
    with Journal(tmp_path / "metrics.jsonl", Console(file=shown, width=40)) as journal:
        journal.begin("0-federate", 2, done=0)
        journal.advance("0-federate", 1, 2, "loss 0.500, [dark] balanced accuracy 0.700")
        journal.advance("0-federate", 2, 2, "loss 0.400")
    assert shown.getvalue().splitlines() == [
        "0-federate 1/2 loss 0.500, [dark] balanced accuracy 0.700",
        "0-federate 2/2 loss 0.400",
    ]


def test_on_a_terminal_there_is_a_bar(tmp_path):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with Journal(tmp_path / "metrics.jsonl", console) as journal:
        journal.begin("0-federate", 3, done=1)
        journal.advance("0-federate", 2, 3, "loss 0.500")
    assert "2/3" in shown.getvalue()
    assert "loss 0.500" in shown.getvalue()


def test_a_disk_that_does_not_take_a_line_is_said(tmp_path):
    journal = Journal(tmp_path / "metrics.jsonl")
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot write .*metrics\.jsonl: .*--resume"):
        journal.write({"round": 1})
