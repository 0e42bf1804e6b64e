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


def plain(value):
    """A picture of one grey."""
    return np.full((SIZE, SIZE, 3), value, dtype=np.uint8)


class Shown:
    """A graph that writes down what it is shown, and answers each picture's first value."""

    num_classes, num_features = 2, 3

    def __init__(self):
        self.batches = []
        self.open = threading.Event()
        self.open.set()
        self.begun = threading.Semaphore(0)
        self.at_once, self.most = 0, 0
        self.counting = threading.Lock()

    def run(self, images):
        self.batches.append(images[:, 0, 0, 0].tolist())
        with self.counting:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.begun.release()
        assert self.open.wait(60)
        with self.counting:
            self.at_once -= 1
        if BAD in images:
            raise GraphError("the graph answered logits that are not finite")
        first = images[:, 0, 0, :1].astype(np.float32)
        return Outputs(
            np.repeat(first, self.num_classes, 1),
            np.repeat(first, self.num_classes, 1),
            np.repeat(first, self.num_features, 1),
        )


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


async def run(asked, loaded, pixels):
    """What the model answers for a picture that is there."""
    return (await asked.infer(loaded, lambda _: Decoded(Question(pixels[None]), QualityAssessment())))[1]


async def waiting(asked, number):
    """Waits until so many are decoded and wait for their model."""
    while len(asked._waiting) < number:
        await asyncio.sleep(0)


async def begun(graph):
    """Waits until the graph is being run once more."""
    assert await asyncio.to_thread(graph.begun.acquire, timeout=60)


def test_versions_are_not_mixed_and_whoever_waited_longest_is_next(batcher):
    first, second = Shown(), Shown()

    async def ask():
        asked, one, other = batcher(), version(first), version(second, number=2)
        first.open.clear()
        tasks = [asyncio.create_task(run(asked, one, plain(0)))]
        await begun(first)
        others = [(other, 1), (one, 2), (other, 3), (one, 4)]
        tasks += [asyncio.create_task(run(asked, loaded, plain(value))) for loaded, value in others]
        await waiting(asked, 4)
        first.open.set()
        return [float(told.logits[0, 0]) for told in await asyncio.gather(*tasks)]

    assert asyncio.run(ask()) == [0, 1, 2, 3, 4]
    assert first.batches == [[0], [2, 4]]
    assert second.batches == [[1, 3]]


@pytest.mark.parametrize(
    ("settings", "at_once", "together"),
    [({"max_batch": 1}, 2, 1), ({"max_batch": 4}, 1, 4), ({"max_batch": None, "providers": "cuda"}, 1, 5)],
)
def test_single_pictures_run_on_each_thread_and_batches_one_at_a_time(batcher, settings, at_once, together):
    graph = Shown()

    async def ask():
        asked, loaded = batcher(threads=2, **settings), version(graph)
        graph.open.clear()
        tasks = [asyncio.create_task(run(asked, loaded, plain(0)))]
        await begun(graph)
        tasks += [asyncio.create_task(run(asked, loaded, plain(value))) for value in range(1, 6)]
        for _ in range(at_once - 1):
            await begun(graph)
        await waiting(asked, 5 if at_once == 1 else 4)
        graph.open.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert graph.most == at_once
    assert max(len(batch) for batch in graph.batches) == together
    assert sorted(value for batch in graph.batches for value in batch) == [0, 1, 2, 3, 4, 5]
    assert together <= GPU_BATCH


def test_only_a_picture_that_is_alone_has_several_threads(batcher):
    graph, lone_graph = Shown(), Shown()

    async def ask():
        asked, loaded = batcher(threads=2, max_batch=1), version(graph, lone_graph)
        await run(asked, loaded, plain(1))
        await begun(lone_graph)
        graph.open.clear()
        lone_graph.open.clear()
        tasks = [asyncio.create_task(run(asked, loaded, plain(2)))]
        await begun(lone_graph)
        tasks += [asyncio.create_task(run(asked, loaded, plain(value))) for value in (3, 4)]
        await begun(graph)
        lone_graph.open.set()
        await begun(graph)  # 3 is still being shown
        graph.open.set()
        await asyncio.gather(*tasks)
        await run(asked, loaded, plain(5))

    asyncio.run(ask())
    assert lone_graph.batches == [[1], [2], [5]]
    assert graph.batches == [[3], [4]]


def test_one_that_cannot_be_answered_harms_no_other(batcher):
    graph = Shown()

    async def ask():
        asked, loaded = batcher(), version(graph)
        graph.open.clear()
        tasks = [asyncio.create_task(run(asked, loaded, plain(0)))]
        await begun(graph)
        tasks += [asyncio.create_task(run(asked, loaded, plain(value))) for value in (1, BAD, 2)]
        await waiting(asked, 3)
        graph.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    zero, one, bad, two = asyncio.run(ask())
    assert graph.batches == [[0], [1, BAD, 2], [1], [BAD], [2]]
    assert [float(told.logits[0, 0]) for told in (zero, one, two)] == [0, 1, 2]
    assert isinstance(bad, GraphError)


@pytest.mark.parametrize("part", ["probabilities", "logits", "embedding"])
def test_answers_that_are_not_one_for_each_picture_are_asked_for_again(part):
    class Short(Shown):
        def run(self, images):
            outputs = vars(super().run(images))
            if len(images) > 1:
                outputs[part] = outputs[part][:1]
            return Outputs(**outputs)

    graph = Short()
    told = run_batch(graph, [Question(plain(1)[None]), Question(plain(2)[None])])
    assert [float(one.logits[0, 0]) for one in told] == [1, 2]

    class Wide(Shown):
        def run(self, images):
            outputs = vars(super().run(images))
            outputs[part] = np.repeat(outputs[part], 2, 1)
            return Outputs(**outputs)

    failed = run_batch(Wide(), [Question(plain(1)[None])])
    assert isinstance(failed[0], GraphError)
    assert part in str(failed[0])


def test_a_version_goes_with_its_last_picture(batcher):
    graph = Shown()

    async def ask():
        asked, loaded = batcher(), version(graph)
        gone = weakref.ref(loaded)
        graph.open.clear()
        task = asyncio.create_task(run(asked, loaded, plain(1)))
        await begun(graph)
        del loaded
        gc.collect()
        assert gone() is not None
        graph.open.set()
        await task
        del task
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
        assert gone() is None

    asyncio.run(ask())


def decoding(order, name, *, begun=None, go=None):
    """Gives a picture, when it may, and writes down that it did."""

    def decode(_):
        if begun is not None:
            begun.set()
            assert go.wait(60)
        order.append(f"decoded {name}")
        return Decoded(Question(plain(name)[None]), QualityAssessment())

    return decode


class Told(Shown):
    """Writes down what it was shown beside what was decoded."""

    def __init__(self, order):
        super().__init__()
        self.order = order

    def run(self, images):
        self.order.append("shown " + ", ".join(str(value) for value in images[:, 0, 0, 0]))
        return super().run(images)


def test_a_picture_that_cannot_be_decoded_harms_no_other(batcher):
    def broken(_):
        raise ValueError("no picture")

    async def main():
        asked, loaded = batcher(2, 4), version(Shown())
        tasks = [asked.infer(loaded, broken), run(asked, loaded, plain(1)), asked.infer(loaded, broken)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert [str(one) for one in (first, third)] == ["no picture"] * 2
    assert float(second.logits[0, 0]) == 1


def test_a_thread_outlives_whatever_goes_wrong(batcher, monkeypatch):
    async def main():
        asked, loaded = batcher(1, 1), version(Shown())
        with monkeypatch.context() as broken:
            broken.setattr("serving.inference.batcher.run_batch", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await run(asked, loaded, plain(1))
        return await run(asked, loaded, plain(2))

    assert float(asyncio.run(main()).logits[0, 0]) == 2


@pytest.mark.parametrize("at", ["before its turn", "while it is decoded"])
def test_a_picture_that_is_given_up_is_not_worked_on_and_blocks_nobody(batcher, at):
    found, begun, go = [], threading.Event(), threading.Event()

    async def main():
        asked, loaded = batcher(1, 1), version(Told(found))
        first = asyncio.create_task(asked.infer(loaded, decoding(found, 0, begun=begun, go=go)))
        await asyncio.to_thread(begun.wait, 60)
        second = asyncio.create_task(asked.infer(loaded, decoding(found, 1)))
        await asyncio.sleep(0)
        given_up, other = (second, first) if at == "before its turn" else (first, second)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        go.set()
        await asyncio.wait_for(other, 60)
        await asyncio.wait_for(asked.infer(loaded, decoding(found, 2)), 60)

    asyncio.run(main())
    if at == "before its turn":
        assert found == ["decoded 0", "shown 0", "decoded 2", "shown 2"]
    else:
        assert found == ["decoded 0", "decoded 1", "shown 1", "decoded 2", "shown 2"]


class CasesShown:
    """A graph of cases that writes down how many cases of how many slots it is shown."""

    takes_cases, num_facts, num_classes, num_features = True, 3, 2, 3

    def __init__(self):
        self.shown = []
        self.open, self.begun = threading.Event(), threading.Semaphore(0)

    def run_cases(self, images, kinds, context):
        self.shown.append(kinds.shape)
        self.begun.release()
        assert self.open.wait(60)
        first = images[:, 0, 0, 0, :1].astype(np.float32)
        return Outputs(np.repeat(first, 2, 1), np.repeat(first, 2, 1), np.repeat(first, 3, 1))


def test_cases_of_as_many_pictures_go_together(batcher):
    """An empty slot costs as much as a picture."""
    graph = CasesShown()

    def case(value, pictures):
        given = read_given(CASE, [None] * pictures, {})
        return Decoded(Question(np.stack([plain(value)] * pictures), given), QualityAssessment())

    async def ask():
        asked, loaded = batcher(), version(graph)

        def start(value, pictures):
            return asyncio.create_task(asked.infer(loaded, lambda _: case(value, pictures)))

        tasks = [start(0, 1)]
        await begun(graph)
        tasks += [start(value, pictures) for value, pictures in ((1, 2), (2, 1), (3, 2), (4, 1))]
        await waiting(asked, 4)
        graph.open.set()
        return await asyncio.gather(*tasks)

    answers = asyncio.run(ask())
    assert graph.shown == [(1, 1), (2, 2), (2, 1)]
    assert [float(outputs.logits[0, 0]) for _, outputs in answers] == [0, 1, 2, 3, 4]
