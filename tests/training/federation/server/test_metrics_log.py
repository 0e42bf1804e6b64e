import io

import pytest
from rich.console import Console

from training.errors import CheckpointError
from training.federation.server.metrics_log import MetricsLog


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


def test_elsewhere_than_on_a_terminal_progress_is_plain_lines(tmp_path):
    shown = io.StringIO()
    with MetricsLog(tmp_path / "metrics.jsonl", Console(file=shown, width=40)) as metrics_log:
        metrics_log.begin("0-federate", 2, done=0)
        metrics_log.advance("0-federate", 1, 2, "loss 0.500, [dark] balanced accuracy 0.700")
        metrics_log.advance("0-federate", 2, 2, "loss 0.400")
    assert shown.getvalue().splitlines() == [
        "0-federate 1/2 loss 0.500, [dark] balanced accuracy 0.700; about 1 s left",
        "0-federate 2/2 loss 0.400",
    ]


def test_on_a_terminal_there_is_a_bar(tmp_path):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with MetricsLog(tmp_path / "metrics.jsonl", console) as metrics_log:
        metrics_log.begin("0-federate", 3, done=1)
        metrics_log.advance("0-federate", 2, 3, "loss 0.500")
    assert "2/3" in shown.getvalue()
    assert "loss 0.500" in shown.getvalue()


def test_a_disk_that_does_not_take_a_line_is_said(tmp_path):
    metrics_log = MetricsLog(tmp_path / "metrics.jsonl")
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot write .*metrics\.jsonl: .*--resume"):
        metrics_log.write({"round": 1})
