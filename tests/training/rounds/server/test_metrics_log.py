import pytest
from rich.console import Console

from training.errors import CheckpointError
from training.rounds.server.metrics_log import MetricsLog


def test_lines_come_back_and_what_followed_a_checkpoint_is_cut(tmp_path):
    metrics_log = MetricsLog(tmp_path / "run" / "metrics.jsonl", Console(quiet=True))
    assert metrics_log.size == 0
    metrics_log.write({"round": 1, "loss": 0.5, "clinic": "Zürich"})
    size = metrics_log.size
    metrics_log.write({"round": 2})
    assert [line["round"] for line in metrics_log.lines()] == [1, 2]
    metrics_log.cut(size)
    metrics_log.write({"round": 2, "again": True})
    assert metrics_log.lines() == [{"round": 1, "loss": 0.5, "clinic": "Zürich"}, {"round": 2, "again": True}]


def test_a_journal_that_is_opened_again_goes_on(tmp_path):
    MetricsLog(tmp_path / "metrics.jsonl").write({"round": 1})
    metrics_log = MetricsLog(tmp_path / "metrics.jsonl")
    metrics_log.write({"round": 2})
    assert [line["round"] for line in metrics_log.lines()] == [1, 2]


def test_a_disk_that_does_not_take_a_line_is_said(tmp_path):
    metrics_log = MetricsLog(tmp_path / "metrics.jsonl")
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot write .*metrics\.jsonl: .*--resume"):
        metrics_log.write({"round": 1})
