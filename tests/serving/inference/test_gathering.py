"""Which pictures go together, and who waits for whom and how long."""

import asyncio
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from registry.bundle.question import Question
from serving.inference.gathering import Batching, choose
from serving.inference.predictor import Decoded
from serving.inference.quality import QualityAssessment
from serving.inference.scheduler import Scheduler
from serving.metrics.metrics import Metrics
from tests.serving.inference.test_scheduler import Shown, begun, plain, version

ON_GPU = Batching(4, 0.002, one_run=True)
ON_PROCESSOR = Batching(4, 0.0)


@dataclass(eq=False)
class Picture:
    """A picture that waits, decoded at a moment or not yet."""

    loaded: object
    waiting_since: float = 0.0
    pictures: int = 1

    @property
    def decoded(self):
        return SimpleNamespace(question=SimpleNamespace(images=[None] * self.pictures))


A, B = object(), object()


def chosen(batching, undecoded=(), decoded=(), decoding=(), running=(), now=0.001):
    """What is chosen: pictures to show, the one to decode, or seconds."""
    choice = choose(undecoded, decoded, decoding=decoding, running=running, batching=batching, now=now)
    return list(choice.show) or choice.decode or choice.wait


def test_a_picture_that_is_alone_goes_at_once():
    one = Picture(A)
    for batching in (ON_GPU, ON_PROCESSOR):
        assert chosen(batching, decoded=[one]) == [one]
        assert chosen(batching) is None


def test_on_a_gpu_it_waits_for_what_another_thread_decodes_and_no_longer_than_it_may():
    one, other = Picture(A), Picture(A)
    assert chosen(ON_GPU, decoded=[one], decoding=[other]) == pytest.approx(0.001)
    assert chosen(ON_GPU, decoded=[one], decoding=[other], now=0.002) == [one]
    assert chosen(ON_GPU, decoded=[one], decoding=[Picture(B)]) == [one]
    assert chosen(ON_PROCESSOR, decoded=[one], decoding=[other]) == [one]


def test_a_thread_that_waits_for_others_decodes_meanwhile():
    one, other, foreign = Picture(A), Picture(A), Picture(B)
    assert chosen(ON_GPU, decoded=[one], undecoded=[foreign, other]) is other
    assert chosen(ON_GPU, decoded=[one], undecoded=[foreign], decoding=[other]) is foreign
    assert chosen(ON_GPU, decoded=[one], undecoded=[other], now=0.002) == [one]
    assert chosen(ON_PROCESSOR, decoded=[one], undecoded=[other], now=9) is other


def test_a_batch_that_is_full_waits_for_nobody():
    full = [Picture(A) for _ in range(5)]
    assert chosen(ON_GPU, decoded=full, decoding=[Picture(A)]) == full[:4]


def test_a_version_on_a_gpu_runs_one_batch_at_a_time_and_others_beside_it():
    one, other = Picture(A), Picture(B)
    assert chosen(ON_GPU, decoded=[one], running=[A]) is None
    assert chosen(ON_GPU, decoded=[one, other], running=[A]) == [other]
    assert chosen(ON_GPU, decoded=[one], undecoded=[other], running=[A]) is other
    assert chosen(ON_PROCESSOR, decoded=[one], running=[A]) == [one]


def test_of_two_that_wait_the_first_to_be_due_says_how_long():
    one, other = Picture(A, 0.0), Picture(B, 0.0005)
    decoding = [Picture(A), Picture(B)]
    assert chosen(ON_GPU, decoded=[one, other], decoding=decoding) == pytest.approx(0.001)
    assert chosen(ON_GPU, decoded=[one, other], decoding=decoding, now=0.0021) == [one]


def test_cases_of_as_many_pictures_go_together():
    ones = [Picture(A, pictures=1), Picture(A, pictures=2), Picture(A, pictures=1)]
    assert chosen(ON_GPU, decoded=ones) == [ones[0], ones[2]]


@pytest.fixture
def scheduler():
    """Makes one for a GPU, and ends its threads."""
    made = []

    def make(threads, seconds):
        made.append(Scheduler(threads, Batching(4, seconds, one_run=True), Metrics()))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Decoding:
    """Decodes a picture of one grey once it may."""

    def __init__(self, value, *, held=False):
        self.value, self.begun, self.go = value, threading.Event(), threading.Event()
        if not held:
            self.go.set()

    def __call__(self):
        self.begun.set()
        assert self.go.wait(60)
        return Decoded(Question(plain(self.value)[None]), QualityAssessment())


async def came(decoding):
    """Waits until a picture is being decoded."""
    assert await asyncio.to_thread(decoding.begun.wait, 60)


def start(asked, loaded, *decodings):
    """Asks about pictures, in this order."""
    return [asyncio.create_task(asked.infer(loaded, one)) for one in decodings]


def test_pictures_that_are_decoded_side_by_side_go_together(scheduler):
    graph, slow, quick = Shown(), Decoding(1, held=True), Decoding(2)

    async def ask():
        asked, loaded = scheduler(2, 60.0), version(graph)
        tasks = start(asked, loaded, slow)
        await came(slow)
        tasks += start(asked, loaded, quick)
        await came(quick)
        slow.go.set()
        return await asyncio.gather(*tasks)

    assert len(asyncio.run(ask())) == 2
    assert [sorted(batch) for batch in graph.batches] == [[1, 2]]


def test_a_picture_does_not_wait_longer_than_it_may(scheduler):
    graph, stuck, quick = Shown(), Decoding(1, held=True), Decoding(2)

    async def ask():
        asked, loaded = scheduler(2, 0.01), version(graph)
        tasks = start(asked, loaded, stuck)
        await came(stuck)
        tasks += start(asked, loaded, quick)
        await tasks[1]  # while the other one is still being decoded
        stuck.go.set()
        await tasks[0]

    asyncio.run(ask())
    assert graph.batches == [[2], [1]]


def test_who_waits_for_others_decodes_what_comes(scheduler):
    graph, stuck, quick, late = Shown(), Decoding(1, held=True), Decoding(2), Decoding(3)

    async def ask():
        asked, loaded = scheduler(2, 60.0), version(graph)
        tasks = start(asked, loaded, stuck)
        await came(stuck)
        tasks += start(asked, loaded, quick)
        await came(quick)
        tasks += start(asked, loaded, late)
        await came(late)  # both threads are taken: one decodes, and the other one waited for it
        stuck.go.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert [sorted(batch) for batch in graph.batches] == [[1, 2, 3]]


def test_what_is_decoded_while_the_model_runs_is_the_next_batch(scheduler):
    graph, first, others = Shown(), Decoding(0), [Decoding(value) for value in (1, 2, 3)]

    async def ask():
        asked, loaded = scheduler(3, 0.0), version(graph)
        graph.open.clear()
        tasks = start(asked, loaded, first)
        await begun(graph)
        tasks += start(asked, loaded, *others)
        for one in others:
            await came(one)
        while asked._decoding:  # until they have been decoded
            await asyncio.sleep(0)
        graph.open.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert graph.batches[0] == [0]
    assert [sorted(batch) for batch in graph.batches[1:]] == [[1, 2, 3]]
    assert graph.most == 1
