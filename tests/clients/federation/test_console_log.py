"""What whoever watches sees: where a run stands, and what a node's processes say."""

import io
import logging
import threading

from clients.federation.console_log import MARK, ConsoleLog
from clients.federation.site_policy import log_settings
from training.engines.nvflare.log_stream import LogStream


def test_marked_lines_of_a_log_are_repeated_from_now_on(tmp_path):
    log = tmp_path / "node.log"
    log.write_text(f"then{MARK}old\n")
    heard, came = [], threading.Event()

    def hear(line):
        heard.append(line)
        came.set()

    console = ConsoleLog(log, hear)
    console.start()
    with log.open("a") as file:
        file.write(f"now{MARK}job skin, 0-federate round 1, fit\nFLARE says much\nhalf{MARK}")
        file.flush()
        assert came.wait(60)
        file.write("a line\n")
    console.close()
    assert heard == [f"now{MARK}job skin, 0-federate round 1, fit", f"half{MARK}a line"]


def test_a_full_log_begins_anew_for_whoever_holds_it_open(tmp_path):
    log = tmp_path / "node.log"
    heard = []
    console = ConsoleLog(log, heard.append, full=100)
    with log.open("ab", buffering=0) as file:
        for number in range(8):
            file.write(f"{number}{MARK}{'x' * 60}\n".encode())
            console._poll()
            assert log.stat().st_size < 300
    assert [line[0] for line in heard] == list("01234567")  # none is lost to whoever watches
    old = sorted(tmp_path.glob("node.log.*"))
    assert old[0].stat().st_mode & 0o077 == 0
    kept = "".join(path.read_text() for path in reversed(old)) + log.read_text()
    assert [line[0] for line in kept.splitlines()] == list("01234567")[-len(kept.splitlines()) :]
    assert len(kept.splitlines()) >= 6


def test_what_tasks_say_is_marked_and_nothing_else_is(capsys, monkeypatch):
    import logging.config

    settings = log_settings()
    settings["formatters"]["base"] = {"format": "%(message)s"}  # FLARE's own wants FLARE
    settings["handlers"].pop("logFileHandler")
    settings["loggers"]["root"]["handlers"].remove("logFileHandler")
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logging.config.dictConfig(settings)
        logging.getLogger("dermfed.node").info("job skin")
        logging.getLogger("dermfed.coordinator").info("0-federate 1/2")
        logging.getLogger("nvflare").info("hello")
        logging.getLogger("nvflare").warning("a lost packet")
    finally:
        root.handlers[:], root.level = before
        for name in ("dermfed.node", "dermfed.coordinator"):
            logging.getLogger(name).handlers.clear()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(MARK)[2] for line in lines] == ["job skin", "0-federate 1/2", ""]


def test_progress_is_written_and_said_by_whole_lines(caplog):
    caplog.set_level(logging.INFO)
    file = io.StringIO()
    spoken = LogStream(file, logging.getLogger("dermfed.coordinator"))
    spoken.write("0-federate 1/2 lo")
    assert caplog.messages == []
    spoken.write("ss 0.5\n\n0-fed")
    assert file.getvalue() == "0-federate 1/2 loss 0.5\n\n0-fed"
    assert caplog.messages == ["0-federate 1/2 loss 0.5"]
