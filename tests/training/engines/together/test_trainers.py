"""Processes that train together against one that trains alone, and against the end of one of them."""

import os
import signal
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch
import torch.nn.functional as F

from clients.store import ClientStore
from tests.closeness import assert_close_in_norm
from tests.training.engines.together.asked import NAMES, SETTLED, Failing, job_of, question, when_it_trains
from training.algorithms.sampling import epoch_order, in_batches
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.engines.together.trainers import TrainingProcesses
from training.errors import DataError, ProcessesError
from training.messages.message import Failure
from training.models import initial_model
from training.models.groups import float_state
from training.progress import unwatched
from training.seeds import generator

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def answers(make_job, federate_block, dataset, tmp_path_factory):
    """What one, two and three processes answer to each training, and two others to the same."""
    found = {}
    for run, processes in {"one": 1, "two": 2, "two again": 2, "three": 3}.items():
        folder = tmp_path_factory.mktemp("run")
        job = job_of(make_job, federate_block, processes)
        engine = InProcessEngine(ClientAppParts(job, dataset, ClientStore(folder / "c")), folder / "spool")
        for name in NAMES[:3]:
            [found[run, name]] = engine.run_round([question(job, name)])
            # What was kept of the optimizer is gone on from, whoever has it in memory.
            [found[run, f"{name}, on"]] = engine.run_round([question(job, name, 2)])
        engine.close()
    return found


TRAININGS = [*NAMES[:3], *(f"{name}, on" for name in NAMES[:3])]


@pytest.mark.parametrize("processes", ["two", "three"])
@pytest.mark.parametrize("name", TRAININGS)
def test_several_processes_come_to_the_weights_of_one_but_for_rounding(answers, name, processes):
    alone, together = answers["one", name], answers[processes, name]
    assert_close_in_norm(together.tensors, alone.tensors, 2e-5)
    assert together.num_examples == alone.num_examples
    assert together.losses == pytest.approx(alone.losses, rel=1e-5)
    assert together.scalars == alone.scalars


@pytest.mark.parametrize("name", TRAININGS)
def test_as_many_processes_come_to_the_same_weights_to_the_last_bit(answers, name):
    first, second = answers["two", name], answers["two again", name]
    assert all(torch.equal(first.tensors[key], second.tensors[key]) for key in first.tensors)
    assert first.losses == second.losses


def test_two_processes_take_the_steps_of_plain_torch(answers, make_job, federate_block, dataset):
    job = job_of(make_job, federate_block)
    model = initial_model(job.model, job.seed, job.data.image_size, 2, None)
    model = model.to(memory_format=torch.channels_last).train()
    examples = dataset.examples("north", "train")
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for epoch in range(2):
        random = generator(job.seed, "0-federate", "global", 1, "north", f"order {epoch}")
        for positions in in_batches(epoch_order(examples.labels, "uniform", random), 8):
            images = torch.from_numpy(examples.images[examples.rows[positions]]).permute(0, 3, 1, 2) / 255
            optimizer.zero_grad()
            F.cross_entropy(model(images), torch.from_numpy(examples.labels[positions])).backward()
            optimizer.step()
    assert_close_in_norm(answers["two", "sgd"].tensors, float_state(model), 1e-5)


def test_a_process_that_is_killed_ends_the_training_with_an_error_that_names_it(trainers):
    job, together = trainers()
    when_it_trains(together, lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(ProcessesError, match="process 2 of 2 that train together ended by signal 9"):
        together.fit(question(job, "for ever"), None, unwatched)
    # Nothing is left of that training, and the next one is like any other.
    assert together._members == ()
    update = together.fit(question(job, "sgd"), None, unwatched)
    assert update.num_examples == {"light": 13, "dark": 5}


def test_a_process_that_falls_silent_is_not_waited_for_for_ever(trainers):
    job, together = trainers(silence=5.0)
    when_it_trains(together, lambda pid: os.kill(pid, signal.SIGSTOP))
    with pytest.raises(
        ProcessesError,
        match="process 2 of 2 that train together was waited for in vain, for 5 s; all were ended",
    ):
        together.fit(question(job, "for ever"), None, unwatched)


def test_an_error_of_one_process_is_that_of_the_training(trainers):
    job, together = trainers(partial(Failing, rank=1, error=DataError("north has lost a picture")))
    with pytest.raises(DataError, match="north has lost a picture"):
        together.fit(question(job, "for ever"), None, unwatched)


def test_what_fails_in_the_processes_is_the_client_s_answer(make_job, federate_block, dataset, tmp_path):
    job = job_of(make_job, federate_block, 2)
    parts = ClientAppParts(job, dataset, ClientStore(tmp_path / "c"))
    engine = InProcessEngine(parts, tmp_path / "spool")
    engine._trainers._again = 0
    when_it_trains(engine._trainers, lambda pid: os.kill(pid, signal.SIGKILL))
    [answer] = engine.run_round([question(job, "for ever")])
    engine.close()
    assert isinstance(answer, Failure)
    assert "process 2 of 2 that train together ended by signal 9" in answer.reason


def test_whoever_waits_is_told_how_much_is_done(trainers):
    job, together = trainers()
    told = []

    def watch(share):
        told.append(share)
        if share > 0:
            os.kill(together._members[0].process.pid, signal.SIGKILL)

    with pytest.raises(ProcessesError, match="process 1 of 2 that train together ended by signal 9"):
        together.fit(question(job, "for ever"), None, watch)
    assert 0 < told[-1] < 1


def ask_for_ever(parts, asked, folder, pids):
    """Another process that asks, and tells whom once they train."""
    together = TrainingProcesses(parts, 2, folder)

    def tell(share):
        if share > 0:
            pids.put([member.process.pid for member in together._members])

    together.fit(asked, None, tell)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
def test_processes_end_with_the_one_that_asks(make_job, federate_block, dataset, tmp_path):
    job = job_of(make_job, federate_block, 2)
    parts = ClientAppParts(job, dataset, ClientStore(tmp_path / "clients"))
    context = get_context("spawn")
    pids = context.Queue()
    asking = context.Process(
        target=ask_for_ever, args=(parts, question(job, "for ever"), tmp_path / "t", pids)
    )
    asking.start()
    members = pids.get(timeout=10 * SETTLED)
    assert all(map(is_running, members))
    asking.kill()
    asking.join()
    begun = monotonic()
    while any(map(is_running, members)) and monotonic() - begun < SETTLED:
        sleep(0.05)
    assert not any(map(is_running, members))
