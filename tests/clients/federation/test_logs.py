"""A node's log on its console, its turning over, and folders of ended jobs."""

import io
import json
import logging
import logging.config
import os
from uuid import UUID

import pytest

from clients.federation.kit import Federation, Kit, KitFacts
from clients.federation.logs import FOLDERS, MARK, NodeLog, prune, prune_folders
from clients.federation.site_policy import CONSOLE_LOGGERS, log_settings
from clients.federation.status import rounds_line, status_line
from clients.node.hospital import log_error
from training.engines.session import LogStream
from training.jobs.job import Job


def test_where_a_run_stands_in_one_line():
    progress = {
        "asking": "0-federate 3 fit",
        "answered": ["north"],
        "pending": ["south", "east"],
        "offline": {"east": "its cable is out"},
        "seconds": 12.3,
    }
    assert status_line(progress) == "0-federate 3 fit: 1 of 3 answered; 12 s, not yet south; offline east"
    assert status_line({**progress, "pending": []}) == ""
    assert status_line({}) == ""
    many = status_line({**progress, "pending": [f"h{n}" for n in range(11)], "offline": {}})
    assert many.endswith("h7 and 3 more")


def test_how_many_rounds_are_done_and_how_long_the_others_take(tiny):
    federate = {**tiny["stages"][0], "rounds": 10}
    job = Job.model_validate({**tiny, "stages": [federate, {"stage": "export"}]})
    alone = Job.model_validate({**tiny, "stages": [federate]})

    def line(round_, seconds, stage="0-federate"):
        return {"stage": stage, "round": round_, "seconds": seconds}

    last = [line(2, 100), line(3, 20), line(4, 30)]
    text = "4 of 10 rounds done, about 5 min left of the stage"
    assert rounds_line(job, last) == text
    assert rounds_line(alone, last) == "4 of 10 rounds done, about 5 min left"
    assert rounds_line(job, [*last, line(10, 30)]) == ""
    assert rounds_line(job, [line(1, 9, "1-export")]) == ""
    for odd in ("9-x", "0-export", "-1-export", "0", "x", ""):
        assert rounds_line(job, [line(1, 9, odd)]) == "", "the job has no such stage"
    assert rounds_line(job, []) == ""


def test_what_processes_print_is_logged_whole_marked_lines_are_said_and_a_full_log_begins_anew(tmp_path):
    (tmp_path / "node.log").write_text(f"then{MARK}old\n")
    heard = []
    log = NodeLog(tmp_path / "node.log", heard.append, full=100)
    printed = [f"{number}{MARK}{'x' * 60} 100 %s" for number in range(4)]
    output = "\n".join([*printed, "FLARE says much", f"half{MARK}a line"]).encode() + b" \xff"
    log.follow(io.BytesIO(output)).join()
    log.note("its own")
    log.close()
    assert heard[:-1] == [*printed, f"half{MARK}a line \ufffd"]
    assert heard[-1].endswith(f"{MARK}its own")
    files = sorted(tmp_path.glob("node.log*"), reverse=True)
    assert len(files) > 2
    assert all(path.stat().st_size <= 100 for path in files)
    kept = "".join(path.read_text(encoding="utf-8") for path in files).splitlines()
    assert kept == [f"then{MARK}old", *printed, "FLARE says much", *heard[-2:]]


@pytest.mark.parametrize(
    "error", [BrokenPipeError("nobody reads"), ValueError("I/O operation on closed file")]
)
def test_a_console_that_is_gone_ends_neither_the_log_nor_what_is_printed(tmp_path, error):
    """A process whose output is read no more would end, or wait for ever, when it prints next."""

    def gone(line):
        raise error

    log = NodeLog(tmp_path / "node.log", gone)
    reads, writes = os.pipe()
    thread = log.follow(os.fdopen(reads, "rb"))
    with os.fdopen(writes, "wb") as output:
        for number in range(3):
            output.write(f"{number}{MARK}said\n".encode())
            output.flush()
    thread.join(10)
    assert not thread.is_alive()
    log.note("our own")
    log.close()
    lines = (tmp_path / "node.log").read_text().splitlines()
    assert [line.partition(MARK)[2] for line in lines] == ["said"] * 3 + ["our own"]


def test_a_line_an_event_is_said_and_marked_and_all_the_rest_is_in_flares_own_log(capsys, tmp_path):
    settings = log_settings()
    settings["formatters"]["base"] = {"format": "%(message)s"}  # FLARE's own wants FLARE
    settings["handlers"]["logFileHandler"]["filename"] = f"{tmp_path / 'log.txt'}"
    left_out = {
        "dermfed.releases": "7 pictures of dark are held back",
        "training.rounds.client.head_gradient": "the head of dark is not fitted to MEL",
    }
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logging.config.dictConfig(settings)
        logging.getLogger("dermfed.node").info("job skin")
        logging.getLogger("dermfed.coordinator").info("0-federate 1/2")
        for name, line in left_out.items():
            logging.getLogger(name).warning(line)
        logging.getLogger("nvflare").info("hello")
        logging.getLogger("nvflare").warning("a lost packet")
        log_error("refused: no such picture", ValueError("/srv/pictures/1.jpg"))
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:], root.level = before
        for name in CONSOLE_LOGGERS:
            logging.getLogger(name).handlers.clear()
    lines = capsys.readouterr().out.splitlines()
    said = ["job skin", "0-federate 1/2", *left_out.values(), "refused: no such picture"]
    assert [line.partition(MARK)[2] for line in lines] == said
    log = (tmp_path / "log.txt").read_text()
    assert all(line in log for line in (*said, "hello", "a lost packet", "ValueError: /srv/pictures/1.jpg"))


def test_progress_is_written_and_said_by_whole_lines(caplog):
    caplog.set_level(logging.INFO)
    file = io.StringIO()
    spoken = LogStream(file, logging.getLogger("dermfed.coordinator"))
    spoken.write("0-federate 1/2 lo")
    assert caplog.messages == []
    spoken.write("ss 0.5\n\n0-fed")
    assert file.getvalue() == "0-federate 1/2 loss 0.5\n\n0-fed"
    assert caplog.messages == ["0-federate 1/2 loss 0.5"]


@pytest.fixture
def kit(tmp_path):
    federation = Federation.model_validate(
        {"name": "skin", "coordinator": {"host": "x"}, "hospitals": [{"name": "north"}]}
    )
    facts = KitFacts(role="server", name="server", identity="x", organisation="o")
    return Kit(tmp_path, facts, federation)


def left(place, number, **meta):
    """The folder of a job that ended `number` seconds after the first."""
    folder = place / str(UUID(int=number))
    folder.mkdir(parents=True)
    (folder / "meta").write_text(json.dumps(meta))
    os.utime(folder, (1e9 + number, 1e9 + number))
    return folder.name


def names(place):
    return sorted(path.name for path in place.iterdir())


def test_the_newest_folders_of_jobs_stay_and_nothing_else_is_touched(kit):
    made = [left(kit.path, number) for number in range(FOLDERS + 3)]
    (kit.path / "local").mkdir()
    (kit.path / "private" / "runs" / "skin-1").mkdir(parents=True)
    prune_folders(kit.path)
    assert names(kit.path) == sorted([*made[3:], "local", "private"])
    assert (kit.path / "private" / "runs" / "skin-1").is_dir()


def test_a_job_that_died_with_its_coordinator_goes_and_one_that_waits_or_ended_stays(kit):
    store = kit.private / "jobs"
    dead = [left(store, number, status=status) for number, status in enumerate(("RUNNING", "DISPATCHED"))]
    there = [
        left(store, 10 + number, status=status)
        for number, status in enumerate(("SUBMITTED", "FINISHED:COMPLETED", "FINISHED:ABORTED"))
    ]
    (store / str(UUID(int=20))).mkdir()  # what cannot be read is not judged
    prune(kit)
    assert names(store) == [*there, str(UUID(int=20))]
    assert not set(dead) & set(names(store))


def test_what_nobody_fetched_is_bounded(kit):
    store = kit.private / "jobs"
    made = [left(store, number, status="FINISHED:COMPLETED") for number in range(FOLDERS + 2)]
    prune(kit)
    assert names(store) == sorted(made[2:])


def test_a_kit_that_never_had_a_job_is_left_as_it_is(kit):
    prune(kit)
    assert names(kit.path) == []
