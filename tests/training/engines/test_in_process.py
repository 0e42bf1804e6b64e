"""Clients in this process or in several: the same weights, and memory that does not grow with the cohort."""

import os
from concurrent.futures import Future
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from clients.data.prepare import prepare
from clients.store import ClientStore
from training.engines import in_process
from training.engines.in_process import ClientAppParts, InProcessEngine, PartsFile
from training.errors import CheckpointError
from training.messages import Broadcast, Failure, tensor_bytes
from training.tensor_file import Spool, SpooledTensors

FOUR = {f"clinic {number}": {("light", "dark")[number % 2]: (4 + number, 3, 0, 3)} for number in range(4)}


@pytest.fixture
def spooled(monkeypatch):
    """The files that were written to a spool."""
    written: list[Path] = []
    write = Spool.write

    def remember(self, tensors):
        path = write(self, tensors)
        written.append(path)
        return path

    monkeypatch.setattr(Spool, "write", remember)
    return written


def test_updates_beyond_the_memory_wait_on_disk_and_change_nothing(
    make_job, run_job, make_dataset, tmp_path, spooled
):
    job, data = make_job(federate={"rounds": 2, "evaluate_on": None}), make_dataset(FOUR)
    here = run_job(job, data, tmp_path / "here")
    assert not spooled

    one = tensor_bytes(here.weights())
    there = run_job(job, data, tmp_path / "there", memory=2 * one)
    first, second = here.weights(), there.weights()
    assert all(torch.equal(first[name], second[name]) for name in first)
    # Of four updates a round two wait in memory; in the end nothing is left on disk.
    assert len(spooled) >= 2 * 2
    assert not list(there.out.glob("spool/**/*.safetensors"))


def test_answers_come_in_the_order_of_the_questions_in_memory_or_on_disk(make_job, make_dataset, tmp_path):
    job, data = make_job(), make_dataset(FOUR)
    parts = ClientAppParts(job, data, ClientStore(tmp_path / "clients"))
    engine = InProcessEngine(parts, tmp_path / "spool", memory=1)
    requests = [Broadcast(name, "census", 0, "census") for name in reversed(data.clients)]
    answers = engine.run_round(requests)
    assert [answer.client for answer in answers] == list(reversed(data.clients))
    assert all(isinstance(answer.tensors, SpooledTensors) for answer in answers)
    engine.close()


class WorkerHere:
    """A pool whose only worker is this process."""

    def __init__(self, workers, mp_context, initializer, initargs):
        initializer(*initargs)

    def submit(self, work, *arguments):
        future = Future()
        future.set_result(work(*arguments))
        return future

    def shutdown(self, cancel_futures):
        pass


def test_answers_of_workers_wait_in_memory_as_far_as_they_may(
    make_job, make_dataset, tmp_path, monkeypatch, spooled
):
    monkeypatch.setattr(in_process, "ProcessPoolExecutor", WorkerHere)
    data = make_dataset(FOUR)
    alone = InProcessEngine(ClientAppParts(make_job(), data, ClientStore(tmp_path / "a")), tmp_path / "alone")
    weights = alone._app._local_model.take(alone._app._local_model.names)
    requests = [Broadcast(name, "0-federate", 1, "fit", tensors=weights) for name in data.clients]
    expected = alone.run_round(requests)
    assert not spooled

    parts = ClientAppParts(make_job(engine={"workers": 2}), data, ClientStore(tmp_path / "b"))
    engine = InProcessEngine(parts, tmp_path / "spool", memory=int(2.5 * tensor_bytes(weights)))
    answers = engine.run_round(requests)
    assert [isinstance(answer.tensors, SpooledTensors) for answer in answers] == [False, False, True, True]
    for one, other in zip(expected, answers, strict=True):
        assert all(torch.equal(other.tensors[name], value) for name, value in one.tensors.items())
    assert len(spooled) == 1 + 4  # the weights once for all, and four updates
    engine.close()


def test_what_a_client_cannot_do_is_an_answer_and_the_others_go_on(make_job, make_dataset, tmp_path):
    data = make_dataset({"north": {"light": (1, 3, 0, 3)}, "south": {"dark": (5, 3, 0, 3)}})
    engine = InProcessEngine(
        ClientAppParts(make_job(), data, ClientStore(tmp_path / "c")), tmp_path / "spool"
    )
    weights = engine._app._local_model.take(engine._app._local_model.names)
    lone, rest = engine.run_round(
        [Broadcast(name, "0-federate", 1, "fit", tensors=weights) for name in data.clients]
    )
    assert isinstance(lone, Failure)
    assert (lone.client, lone.track) == ("north", "global")
    assert "north has fewer than two pictures to train on" in lone.reason
    assert rest.num_examples == {"dark": 5}
    [unknown] = engine.run_round([Broadcast("south", "0-federate", 1, "gossip")])
    assert "stage 0-federate knows no request `gossip`" in unknown.reason
    engine.close()


FULL_DISK = Path("/dev/full")


def put_pid(file, pids):
    pids.put((file.load(), os.getpid()))


@pytest.mark.long
def test_every_worker_reads_the_parts_whole_wherever_the_others_are(tmp_path):
    context = get_context("spawn")
    pids, content = context.Queue(), {"x": "ü" * 200_000}
    file = PartsFile(content, tmp_path)
    assert not list(tmp_path.iterdir())
    assert os.fstat(file._file.fileno()).st_mode & 0o777 == 0o600
    workers = [context.Process(target=put_pid, args=(file, pids)) for _ in range(2)]
    for worker in workers:
        worker.start()
    got = [pids.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    file.close()
    assert [read for read, _ in got] == [content] * 2
    assert {pid for _, pid in got} == {worker.pid for worker in workers}


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_with_what_to_do(make_job, make_dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(in_process, "TemporaryFile", lambda dir: FULL_DISK.open("w+b"))
    parts = ClientAppParts(
        make_job(engine={"workers": 2}), make_dataset(FOUR), ClientStore(tmp_path / "clients")
    )
    with pytest.raises(CheckpointError, match=r"start from to .*spool: .*No space left.*--resume"):
        InProcessEngine(parts, tmp_path / "spool")


def test_one_worker_and_two_give_the_same_bytes(make_job, run_job, tmp_path):
    """With batch norms and optimizers that stay at their client, whichever worker plays it."""
    block = {
        "sync": {"name": "except", "groups": ["norm"]},
        "objective": {"optimizer": {"name": "adam", "lr": 0.01, "state": "keep"}},
    }
    data = {
        "adapter": "synthetic",
        "manifest": None,
        "options": {"pictures": 40, "size": 32, "seed": 0},
        "label_map": "malignancy",
        "clients": {"by": "iid", "count": 3},
    }
    ran = []
    for workers in (1, 2):
        job = make_job(federate=block, data=data, engine={"workers": workers})
        prepared = prepare(job.data, seed=job.seed, folder=tmp_path, cache=tmp_path / "cache")
        ran.append(run_job(job, prepared, tmp_path / f"{workers} workers"))
    alone, together = (run.weights() for run in ran)
    assert len(ran[0].lines[0]["asked"]) == 3
    assert all(alone[name].numpy().tobytes() == together[name].numpy().tobytes() for name in alone)
    first, second = ([{**line, "seconds": 0} for line in run.lines] for run in ran)
    assert first == second
