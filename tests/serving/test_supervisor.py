"""The supervisor over workers that only say that they are there."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving.supervisor import LONGEST_PAUSE, SHORTEST_PAUSE, STEADY, Place, Supervisor, empty

SUPERVISOR = """
import sys
from serving.supervisor import Supervisor
from serving.transport.listening import listen
sockets = listen("127.0.0.1", int(sys.argv[1]))
sys.exit(Supervisor(sockets, 2, [sys.executable, "-c", sys.argv[2], sys.argv[3]]).run())
"""
WORKER = """
import os, socket, sys
folder, pipe, listening = sys.argv[1], int(sys.argv[2]), socket.socket(fileno=int(sys.argv[3]))
open(f"{folder}/{os.getpid()}", "w").close()
os.read(pipe, 1)
"""
DEAF = WORKER + "import time\ntime.sleep(600)\n"


@pytest.fixture
def supervised(tmp_path):
    """Starts a supervisor over two workers of this code; gives it and its port."""
    started = []

    def start(code=WORKER):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-c", SUPERVISOR, str(port), code, str(tmp_path)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        eventually(lambda: len(known(tmp_path)) == 2)
        return process, port

    yield start
    for process in started:
        process.kill()
        process.communicate()
    eventually(lambda: not any(map(runs, known(tmp_path))))


def known(folder):
    """All workers there ever were."""
    return {int(path.name) for path in Path(folder).iterdir() if path.name.isdigit()}


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(holds):
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it never came to hold"
        time.sleep(0.01)


def test_no_worker_outlives_a_supervisor_that_is_killed(supervised, tmp_path):
    process, port = supervised()
    before = known(tmp_path)
    process.kill()
    process.wait()
    eventually(lambda: not any(map(runs, before)))
    socket.create_server(("127.0.0.1", port)).close()  # nobody holds the port


def test_a_worker_that_dies_is_replaced_on_the_same_port_and_the_log_says_so(supervised, tmp_path):
    process, port = supervised()
    killed = min(known(tmp_path))
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: len(known(tmp_path)) == 3)
    socket.create_connection(("127.0.0.1", port), timeout=60).close()
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"worker {killed} ended (SIGKILL); another one is started in 0.5 s" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all(supervised, tmp_path, number):
    process, port = supervised()
    process.send_signal(number)
    assert process.wait(60) == 0
    assert not any(map(runs, known(tmp_path)))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)


def test_a_second_signal_ends_workers_that_do_not_hear(supervised, tmp_path):
    process, _ = supervised(DEAF)
    process.terminate()
    eventually(lambda: any(map(runs, known(tmp_path))))
    while process.poll() is None:
        process.terminate()
        time.sleep(0.05)
    assert process.returncode == 0
    assert not any(map(runs, known(tmp_path)))


def test_pauses_double_up_to_a_longest_and_none_follows_a_long_life(capsys):
    place, supervisor = Place(began=100.0), Supervisor([], 1)
    paused = []
    for _ in range(9):
        supervisor._again(place, 100.5, "it ended")
        paused.append(place.pause)
    assert paused[:3] == [SHORTEST_PAUSE, 2 * SHORTEST_PAUSE, 4 * SHORTEST_PAUSE]
    assert paused[-1] == LONGEST_PAUSE
    supervisor._again(place, 100.0 + STEADY, "it ended")
    assert (place.pause, place.start_at) == (0.0, 100.0 + STEADY)
    assert "started now" in capsys.readouterr().err


def test_whoever_starts_empties_the_counts_and_nothing_else(tmp_path):
    folder = tmp_path / "counts"
    empty(folder)
    (folder / "counter_1.db").touch()
    (folder / "other").touch()
    empty(folder)
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_a_port_that_is_taken_empties_no_counts_of_who_has_it(tmp_path):
    (tmp_path / "counter_1.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = ["--host", "127.0.0.1", "--port", str(taken.getsockname()[1]), "--workers", "1"]
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "serving.supervisor", *asked],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert "cannot be listened on" in ended.stderr
    assert (tmp_path / "counter_1.db").exists()
