"""Pictures that are shown together: when, which, and what one of them cannot do to another."""

import asyncio
import gc
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from registry.bundle.cases import read_given
from registry.bundle.diagnose import Question
from registry.bundle.errors import GraphError
from registry.bundle.model import Outputs
from serving.decoding.decoders import Decoders
from serving.inference.batcher import GPU_BATCH, Batcher, run_batch
from serving.inference.predictor import Decoded, LoadedVersion
from serving.inference.quality import QualityAssessment
from serving.metrics import Metrics
from serving.settings import ServeSettings
from tests.case_bundles import CASE

SIZE = 8
BAD = 255


def question(value, pictures=None):
    """A picture of one grey; a case of so many of them."""
    grey = np.full((pictures or 1, SIZE, SIZE, 3), value, dtype=np.uint8)
    return Question(grey, pictures and read_given(CASE, [None] * pictures, {}))


class Shown:
    """A graph that keeps what it is shown, and answers each picture's first value.

    Attributes:
        batches: the values shown at once.
        open: it runs while this is set.
        begun: released whenever it begins to.
        most: the most runs at the same time.
    """

    num_classes, num_features = 2, 3

    def __init__(self, order=None):
        self.batches, self.order = [], [] if order is None else order
        self.open, self.begun = threading.Event(), threading.Semaphore(0)
        self.open.set()
        self.running, self.most, self.counting = 0, 0, threading.Lock()

    def run(self, images):
        values = images[:, 0, 0, 0].tolist()
        self.batches.append(values)
        self.order.append("shown " + ", ".join(map(str, values)))
        with self.counting:
            self.running += 1
            self.most = max(self.most, self.running)
        self.begun.release()
        assert self.open.wait(60)
        with self.counting:
            self.running -= 1
        if BAD in images:
            raise GraphError("the graph answered logits that are not finite")
        first = images[:, 0, 0, :1].astype(np.float32)
        return Outputs(np.repeat(first, 2, 1), np.repeat(first, 2, 1), np.repeat(first, 3, 1))


class CasesShown(Shown):
    """A graph of cases, which keeps how many cases of how many slots it is shown."""

    takes_cases, num_facts = True, 3

    def run_cases(self, images, kinds, context):
        self.order.append(kinds.shape)
        return self.run(images[:, 0])


def version(graph, lone_graph=None, number=1):
    return LoadedVersion(SimpleNamespace(model="skin-lesion", number=number), None, graph, lone_graph)


@pytest.fixture
def batcher(one_template):
    """Makes one, and ends its threads."""
    made = []

    def make(threads=1, max_batch=4, **settings):
        given, metrics = ServeSettings(threads=threads, max_batch=max_batch, **settings), Metrics()
        decoders = Decoders(given, metrics, one_template)
        decoders.count = 1  # what is asked for first is decoded first
        made.append(decoders)
        return Batcher(given, metrics, decoders)

    yield make
    for one in made:
        one.close()


def start(asked, loaded, value, pictures=None):
    """Asks the model about a picture; its answer is the picture's value."""

    async def ask():
        decoded = Decoded(question(value, pictures), QualityAssessment())
        _, outputs = await asked.infer(loaded, lambda _: decoded)
        return float(outputs.logits[0, 0])

    return asyncio.create_task(ask())


async def waiting(asked, number):
    """Waits until so many are decoded and wait for their model."""
    while len(asked._waiting) < number:
        await asyncio.sleep(0)


async def begun(graph):
    """Waits until the graph is being run once more."""
    assert await asyncio.to_thread(graph.begun.acquire, timeout=60)


async def meanwhile(asked, first, *others):
    """The answers for pictures, all but the first of which are asked for while that is being shown."""
    graph = first[0].graph
    graph.open.clear()
    tasks = [start(asked, *first)]
    await begun(graph)
    tasks += [start(asked, *other) for other in others]
    await waiting(asked, len(others))
    graph.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.anyio
async def test_versions_are_not_mixed_and_what_waited_longest_is_next(batcher):
    one, other = version(Shown()), version(Shown(), number=2)
    sent = [(one, 0), (other, 1), (one, 2), (other, 3), (one, 4)]
    assert await meanwhile(batcher(), *sent) == [0, 1, 2, 3, 4]
    assert one.graph.batches == [[0], [2, 4]]
    assert other.graph.batches == [[1, 3]]


@pytest.mark.anyio
async def test_cases_of_as_many_pictures_go_together(batcher):
    """An empty slot costs as much as a picture."""
    loaded = version(CasesShown())
    sent = [(loaded, 0, 1), (loaded, 1, 2), (loaded, 2, 1), (loaded, 3, 2), (loaded, 4, 1)]
    assert await meanwhile(batcher(), *sent) == [0, 1, 2, 3, 4]
    assert [one for one in loaded.graph.order if isinstance(one, tuple)] == [(1, 1), (2, 2), (2, 1)]


@pytest.mark.anyio
async def test_one_that_cannot_be_answered_harms_no_other(batcher):
    loaded = version(Shown())
    sent = [(loaded, value) for value in (0, 1, BAD, 2)]
    zero, one, bad, two = await meanwhile(batcher(), *sent)
    assert loaded.graph.batches == [[0], [1, BAD, 2], [1], [BAD], [2]]
    assert [zero, one, two] == [0, 1, 2]
    assert isinstance(bad, GraphError)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("settings", "at_once", "together"),
    [({"max_batch": 1}, 2, 1), ({"max_batch": 4}, 1, 4), ({"max_batch": None, "providers": "cuda"}, 1, 5)],
)
async def test_single_pictures_run_on_each_thread_and_batches_one_at_a_time(
    batcher, settings, at_once, together
):
    graph = Shown()
    asked, loaded = batcher(threads=2, **settings), version(graph)
    graph.open.clear()
    tasks = [start(asked, loaded, 0)]
    await begun(graph)
    tasks += [start(asked, loaded, value) for value in range(1, 6)]
    for _ in range(at_once - 1):
        await begun(graph)
    await waiting(asked, 5 if at_once == 1 else 4)
    graph.open.set()
    await asyncio.gather(*tasks)
    assert graph.most == at_once
    assert max(len(batch) for batch in graph.batches) == together
    assert sorted(value for batch in graph.batches for value in batch) == [0, 1, 2, 3, 4, 5]
    assert together <= GPU_BATCH


@pytest.mark.anyio
async def test_only_a_picture_that_is_alone_has_several_threads(batcher):
    graph, lone_graph = Shown(), Shown()
    asked, loaded = batcher(threads=2, max_batch=1), version(graph, lone_graph)
    await start(asked, loaded, 1)
    await begun(lone_graph)
    graph.open.clear()
    lone_graph.open.clear()
    tasks = [start(asked, loaded, 2)]
    await begun(lone_graph)
    tasks += [start(asked, loaded, value) for value in (3, 4)]
    await begun(graph)
    lone_graph.open.set()
    await begun(graph)  # 3 is still being shown
    graph.open.set()
    await asyncio.gather(*tasks)
    await start(asked, loaded, 5)
    assert lone_graph.batches == [[1], [2], [5]]
    assert graph.batches == [[3], [4]]


@pytest.mark.parametrize("part", ["probabilities", "logits", "embedding"])
def test_answers_that_are_not_one_for_each_picture_are_asked_for_again(part):
    class Short(Shown):
        def run(self, images):
            outputs = vars(super().run(images))
            if len(images) > 1:
                outputs[part] = outputs[part][:1]
            return Outputs(**outputs)

    class Wide(Shown):
        def run(self, images):
            outputs = vars(super().run(images))
            outputs[part] = np.repeat(outputs[part], 2, 1)
            return Outputs(**outputs)

    answers = run_batch(Short(), [question(1), question(2)])
    assert [float(one.logits[0, 0]) for one in answers] == [1, 2]
    (failed,) = run_batch(Wide(), [question(1)])
    assert isinstance(failed, GraphError)
    assert part in str(failed)


@pytest.mark.anyio
async def test_a_version_is_freed_with_its_last_picture(batcher):
    graph = Shown()
    asked, loaded = batcher(), version(graph)
    freed = weakref.ref(loaded)
    graph.open.clear()
    task = start(asked, loaded, 1)
    await begun(graph)
    del loaded
    gc.collect()
    assert freed() is not None
    graph.open.set()
    await task
    del task
    for _ in range(500):  # the thread that decoded lets go of its work a little after it is done
        gc.collect()
        if freed() is None:
            break
        await asyncio.sleep(0.01)
    assert freed() is None


@pytest.mark.anyio
async def test_a_picture_that_cannot_be_decoded_harms_no_other(batcher):
    def broken(_):
        raise ValueError("no picture")

    asked, loaded = batcher(2, 4), version(Shown())
    tasks = [asked.infer(loaded, broken), start(asked, loaded, 1), asked.infer(loaded, broken)]
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(one) for one in (first, third)] == ["no picture"] * 2
    assert second == 1


@pytest.mark.anyio
async def test_a_thread_outlives_whatever_goes_wrong(batcher, monkeypatch):
    asked, loaded = batcher(1, 1), version(Shown())
    with monkeypatch.context() as broken:
        broken.setattr("serving.inference.batcher.run_batch", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await start(asked, loaded, 1)
    assert await start(asked, loaded, 2) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("given_up", "found"),
    [
        pytest.param(1, ["decoded 0", "shown 0", "decoded 2", "shown 2"], id="before its turn"),
        pytest.param(
            0, ["decoded 0", "decoded 1", "shown 1", "decoded 2", "shown 2"], id="while it is decoded"
        ),
    ],
)
async def test_a_picture_that_is_given_up_is_not_worked_on_and_blocks_no_other(batcher, given_up, found):
    order, decoding, go = [], threading.Event(), threading.Event()
    asked, loaded = batcher(1, 1), version(Shown(order))

    def ask(value):
        def decode(_):
            decoding.set()
            assert go.wait(60)
            order.append(f"decoded {value}")
            return Decoded(question(value), QualityAssessment())

        return asyncio.create_task(asked.infer(loaded, decode))

    tasks = [ask(0)]
    await asyncio.to_thread(decoding.wait, 60)
    tasks.append(ask(1))
    await asyncio.sleep(0)
    tasks[given_up].cancel()
    await asyncio.gather(tasks[given_up], return_exceptions=True)
    go.set()
    await asyncio.wait_for(tasks[1 - given_up], 60)
    await asyncio.wait_for(ask(2), 60)
    assert order == found
