"""What processes that train together open and leave, for another user of the machine to find.

The control is gloo, torch's own way on processors: it takes a stranger for one of them.
"""

import os
import signal
import socket
import stat
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest
import torch

from clients.store import ClientStore
from tests.training.engines.together.asked import SETTLED, Failing, job_of, question, when_it_trains
from training.engines.in_process import ClientAppParts
from training.engines.together import trainers as of_trainers
from training.engines.together.trainers import TrainingProcesses
from training.errors import DataError, ProcessesError
from training.progress import unwatched

pytestmark = pytest.mark.long
SHARED_MEMORY = "/dev/shm/"
GRADIENT = 7.5


def listening(pid):
    """Where a process waits for others to connect, over a network or by a name on this machine."""
    process = psutil.Process(pid)
    found = [each.laddr for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    named = [each.laddr for each in process.net_connections("unix") if each.laddr]
    return found + named


def open_to_others(folder):
    """Files below a folder that another user may read or write."""
    if stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0:
        return []
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o066]


def test_nothing_listens_and_nobody_else_reads_what_they_write_while_they_train(trainers, monkeypatch):
    """Whatever the environment says: a cluster's names the interface to other machines."""
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "eth0")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")  # puts gloo around what it knows
    monkeypatch.setenv("TORCH_DIST_INIT_BARRIER", "1")
    before = os.umask(0o022)  # as most users have it
    job, together = trainers()
    seen = []

    def look(pid):
        try:
            pids = [member.process.pid for member in together._members]
            seen.append([listening(pid) for pid in [*pids, os.getpid()]])
            assert any(together._folder.rglob("*.safetensors"))
            seen.append([path for each in together._folder.iterdir() for path in open_to_others(each)])
            mapped = {each.path for each_pid in pids for each in psutil.Process(each_pid).memory_maps()}
            shared = [Path(path) for path in mapped if path.startswith(SHARED_MEMORY)]
            seen.append([path for path in shared if path.exists() and path.stat().st_mode & 0o077])
        finally:
            os.kill(pid, signal.SIGKILL)

    try:
        when_it_trains(together, look)
        with pytest.raises(ProcessesError, match="process 2 of 2"):
            together.fit(question(job, "for ever"), None, unwatched)
    finally:
        os.umask(before)
    assert seen == [[[], [], []], [], []]


def member_of_gloo(rank, folder, pipe):
    """One of two processes that meet by gloo, as often as they are told to, and add up a tensor."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    while True:
        store = torch.distributed.FileStore(f"{folder / pipe.recv()}", 2)
        tensor = torch.full((1000,), GRADIENT)
        try:
            group = torch.distributed.ProcessGroupGloo(store, rank, 2, timedelta(seconds=2))
            group.allreduce([tensor]).wait()
        except RuntimeError:
            pipe.send("failed")
        else:
            pipe.send("added")


def speak_gloo(address, heard):
    """Connect as the other process does, and say of whatever is to be sent that it may come."""
    stranger = socket.create_connection(address)
    stranger.sendall(struct.pack("<q", 1))  # the number of the second process
    with stranger, suppress(OSError):
        while data := stranger.recv(1 << 16):
            heard.append(data)
            for place in range(0, len(data) - 47, 48):
                size, kind, slot, _, length, _ = struct.unpack_from("<6q", data, place)
                if (size, kind) == (48, 2):  # it has something to send
                    stranger.sendall(struct.pack("<6q", 48, 3, slot, 0, length, 0))


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="every user sees there who listens")
def test_the_control_gloo_takes_a_stranger_for_one_of_them_and_sends_it_gradients(tmp_path):
    """Which of two connects is as their ports fall: a stranger comes first in every other try or so."""
    context = get_context("spawn")
    members, pipes, known, heard = [], [], set(), []
    gradient = struct.pack("<f", GRADIENT) * 100
    for rank in range(2):
        ours, theirs = context.Pipe()
        pipes.append(ours)
        members.append(context.Process(target=member_of_gloo, args=(rank, tmp_path, theirs), daemon=True))
        members[-1].start()
    try:
        for attempt in range(20):
            pipes[0].send(f"{attempt}")
            begun = monotonic()
            while not (new := set(listening(members[0].pid)) - known) and monotonic() - begun < SETTLED:
                sleep(0.01)
            known |= new
            for address in new:
                threading.Thread(target=speak_gloo, args=(address, heard), daemon=True).start()
            sleep(0.2)
            pipes[1].send(f"{attempt}")
            told = [pipe.recv() for pipe in pipes]
            if told != ["added", "added"]:  # somebody came between, and what was sent may be on its way
                begun = monotonic()
                while gradient not in b"".join(heard) and monotonic() - begun < SETTLED:
                    sleep(0.01)
            if gradient in b"".join(heard):
                break
        assert gradient in b"".join(heard)
    finally:
        for member in members:
            member.kill()
            member.join()


def begin_and_tell(parts, asked, folder, pipe):
    """Another process that asks, until it is killed."""
    together = TrainingProcesses(parts, 2, folder)
    together.fit(asked, None, lambda share: share > 0 and pipe.send("trains"))


def test_what_a_killed_process_left_is_not_in_the_way_of_the_next_one(
    make_job, federate_block, dataset, tmp_path
):
    """A node starts a job's process again in the same folder."""
    job = job_of(make_job, federate_block, 2)
    parts = ClientAppParts(job, dataset, ClientStore(tmp_path / "clients"))
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    asking = context.Process(
        target=begin_and_tell, args=(parts, question(job, "for ever"), tmp_path / "t", theirs)
    )
    asking.start()
    assert ours.recv() == "trains"
    asking.kill()
    asking.join()
    [left] = (tmp_path / "t").iterdir()
    assert (left / "meeting").exists(), "where the next ones would meet those that are gone"
    together = TrainingProcesses(parts, 2, tmp_path / "t", silence=SETTLED)
    try:
        assert together.fit(question(job, "sgd"), None, unwatched).num_examples == {"light": 13, "dark": 5}
    finally:
        together.close()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (DataError("north has lost a picture"), DataError, "north has lost a picture"),
        (
            MemoryError("no 3 GB are free"),
            ProcessesError,
            "process {} of 2 that train together failed: MemoryError: no 3 GB are free",
        ),
    ],
    ids=["ours", "another's"],
)
def test_the_reason_is_told_and_not_what_followed_from_it(trainers, monkeypatch, rank, error, kind, text):
    """The other one loses it a moment later, and on a busy machine both are found at the same look."""
    real = of_trainers.wait

    def late(waiting, timeout):
        if timeout == of_trainers.LOOK and len(waiting) == 4:
            begun = monotonic()
            while len(real(waiting, timeout=0)) < 4 and monotonic() - begun < SETTLED:
                sleep(0.05)
        return real(waiting, timeout=timeout)

    monkeypatch.setattr(of_trainers, "wait", late)
    job, together = trainers(partial(Failing, rank=rank, error=error))
    with pytest.raises(kind, match=text.format(rank + 1)):
        together.fit(question(job, "for ever"), None, unwatched)


def test_a_process_that_lets_go_of_its_line_and_does_not_end_is_not_waited_for(trainers, monkeypatch):
    """As one that hangs on its way out, in a driver for instance."""
    monkeypatch.setattr(of_trainers, "SETTLING", 0.5)
    job, together = trainers(partial(Failing, rank=1, error=SystemExit("a plug-in wants to leave")))
    together._start()
    member = together._members[1]
    os.kill(member.process.pid, signal.SIGSTOP)
    member.pipe.close()
    ours, theirs = get_context("spawn").Pipe()
    theirs.close()
    together._members = (together._members[0], of_trainers.Member(member.share, member.process, ours))
    with pytest.raises(ProcessesError, match="process 2 of 2 that train together has let go of its line"):
        together.fit(question(job, "for ever"), None, unwatched)
    assert not member.process.is_alive()


def test_one_that_was_ended_while_nobody_asked_costs_no_round(trainers):
    """Memory runs out while the hospital evaluates, for instance."""
    job, together = trainers()
    together.fit(question(job, "sgd"), None, unwatched)
    first = [member.process for member in together._members]
    os.kill(first[1].pid, signal.SIGKILL)
    first[1].join()
    assert together.fit(question(job, "sgd"), None, unwatched).num_examples == {"light": 13, "dark": 5}
    assert not any(process.is_alive() for process in first)


@dataclass(frozen=True)
class Killed:
    """Parts of which the second process is killed in its first trainings, so often."""

    parts: ClientAppParts
    folder: Path
    times: int

    @property
    def job(self):
        return self.parts.job

    def build(self, watch=unwatched, share=None):
        app = self.parts.build(watch, share)
        fit = app.fit

        def killed(question, steps):
            deaths = self.folder / f"{len(list(self.folder.iterdir()))}"
            if share.rank == 1 and int(deaths.name) < self.times:
                deaths.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return fit(question, steps)

        app.fit = killed
        return app


def test_a_training_in_which_one_is_killed_is_begun_anew_and_comes_to_the_same(trainers, tmp_path, caplog):
    """As the process of a job is; one that is killed again has its reasons. The control begins none anew."""
    (tmp_path / "deaths").mkdir()
    around = partial(Killed, folder=tmp_path / "deaths", times=3)
    job, together = trainers(around, again=1)
    with pytest.raises(ProcessesError, match="process 2 of 2 that train together ended by signal 9"):
        together.fit(question(job, "sgd"), None, unwatched)  # both times
    caplog.clear()
    found = together.fit(question(job, "sgd"), None, unwatched)
    assert "ended by signal 9" in caplog.text
    assert "The training is begun anew" in caplog.text
    expected = together.fit(question(job, "sgd"), None, unwatched)
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())
    (tmp_path / "deaths" / "0").unlink()
    job, alone = trainers(around, again=0)
    with pytest.raises(ProcessesError, match="process 2 of 2 that train together ended by signal 9"):
        alone.fit(question(job, "sgd"), None, unwatched)
