"""Pictures that are shown together: when, which, and what one of them cannot do to another."""

import asyncio
import gc
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from registry.bundle.errors import GraphError
from registry.bundle.graph import Graph, Outputs
from serving.batching import Batching, show
from serving.metrics import Metrics
from serving.predictor import LoadedVersion

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

    def run(self, images):
        self.batches.append(images[:, 0, 0, 0].tolist())
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.begun.release()
        assert self.open.wait(10)
        self.at_once -= 1
        if BAD in images:
            raise GraphError("the graph answered logits that are not finite")
        first = images[:, 0, 0, :1].astype(np.float32)
        return Outputs(
            np.repeat(first, self.num_classes, 1),
            np.repeat(first, self.num_classes, 1),
            np.repeat(first, self.num_features, 1),
        )


def version(graph, wide=None, number=1):
    return LoadedVersion(SimpleNamespace(model="skin-lesion", number=number), None, graph, wide)


def batching(at_once=1, max_batch=4):
    return Batching(at_once, max_batch, Metrics())


async def begun(graph):
    """Waits until the graph is being run once more."""
    assert await asyncio.to_thread(graph.begun.acquire, timeout=10)


def test_pictures_gather_while_the_graph_runs_and_then_go_together():
    graph = Shown()

    async def ask():
        asked, loaded = batching(), version(graph)
        graph.open.clear()
        tasks = [asyncio.create_task(asked.run(loaded, plain(0)))]
        await begun(graph)
        tasks += [asyncio.create_task(asked.run(loaded, plain(value))) for value in range(1, 7)]
        await asyncio.sleep(0)
        graph.open.set()
        return await asyncio.gather(*tasks)

    answers = asyncio.run(ask())
    assert graph.batches == [[0], [1, 2, 3, 4], [5, 6]]
    assert [float(one.probabilities[0, 0]) for one in answers] == [0, 1, 2, 3, 4, 5, 6]
    for one in answers:
        assert (one.probabilities.shape, one.logits.shape, one.embedding.shape) == ((1, 2), (1, 2), (1, 3))


def test_versions_are_not_mixed_and_whoever_waited_longest_is_next():
    first, second = Shown(), Shown()

    async def ask():
        asked, one, other = batching(), version(first), version(second, number=2)
        first.open.clear()
        tasks = [asyncio.create_task(asked.run(one, plain(0)))]
        await begun(first)
        waiting = [(other, 1), (one, 2), (other, 3), (one, 4)]
        tasks += [asyncio.create_task(asked.run(loaded, plain(value))) for loaded, value in waiting]
        await asyncio.sleep(0)
        first.open.set()
        return [float(told.logits[0, 0]) for told in await asyncio.gather(*tasks)]

    assert asyncio.run(ask()) == [0, 1, 2, 3, 4]
    assert first.batches == [[0], [2, 4]]
    assert second.batches == [[1, 3]]


def test_no_more_run_at_once_than_may():
    graph = Shown()

    async def ask():
        asked, loaded = batching(at_once=2, max_batch=1), version(graph)
        graph.open.clear()
        tasks = [asyncio.create_task(asked.run(loaded, plain(value))) for value in range(6)]
        await begun(graph)
        await begun(graph)
        graph.open.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert graph.most == 2
    assert sorted(graph.batches) == [[value] for value in range(6)]


def test_only_a_picture_that_is_alone_has_several_threads():
    graph, wide = Shown(), Shown()

    async def ask():
        asked, loaded = batching(at_once=2, max_batch=1), version(graph, wide)
        await asked.run(loaded, plain(1))
        wide.open.clear()
        tasks = [asyncio.create_task(asked.run(loaded, plain(2)))]
        await begun(wide)
        tasks += [asyncio.create_task(asked.run(loaded, plain(value))) for value in (3, 4)]
        await begun(graph)
        wide.open.set()
        await asyncio.gather(*tasks)
        await asked.run(loaded, plain(5))

    asyncio.run(ask())
    assert wide.batches == [[1], [2], [5]]
    assert graph.batches == [[3], [4]]


def test_one_that_cannot_be_answered_harms_no_other():
    graph = Shown()

    async def ask():
        asked, loaded = batching(), version(graph)
        graph.open.clear()
        tasks = [asyncio.create_task(asked.run(loaded, plain(0)))]
        await begun(graph)
        tasks += [asyncio.create_task(asked.run(loaded, plain(value))) for value in (1, BAD, 2)]
        await asyncio.sleep(0)
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
    told = show(graph, [plain(1), plain(2)])
    assert [float(one.logits[0, 0]) for one in told] == [1, 2]

    class Wide(Shown):
        def run(self, images):
            outputs = vars(super().run(images))
            outputs[part] = np.repeat(outputs[part], 2, 1)
            return Outputs(**outputs)

    failed = show(Wide(), [plain(1)])
    assert isinstance(failed[0], GraphError)
    assert part in str(failed[0])


def test_what_nobody_waits_for_is_not_shown():
    graph = Shown()

    async def ask():
        asked, loaded = batching(), version(graph)
        graph.open.clear()
        tasks = [asyncio.create_task(asked.run(loaded, plain(0)))]
        await begun(graph)
        tasks += [asyncio.create_task(asked.run(loaded, plain(value))) for value in (1, 2, 3)]
        await asyncio.sleep(0)
        tasks[0].cancel()  # is being shown already
        tasks[2].cancel()
        await asyncio.sleep(0)
        graph.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(ask())
    assert graph.batches == [[0], [1, 3]]
    assert [isinstance(one, asyncio.CancelledError) for one in answers] == [True, False, True, False]


def test_a_version_goes_with_its_last_picture():
    graph = Shown()

    async def ask():
        asked, loaded = batching(), version(graph)
        gone = weakref.ref(loaded)
        graph.open.clear()
        task = asyncio.create_task(asked.run(loaded, plain(1)))
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


def small_network():
    """A convolution, a pooling and a matrix with a bias: what sums in an order of its own."""
    rng = np.random.default_rng(0)
    weights = {
        "kernel": rng.normal(0, 0.1, (7, 3, 3, 3)),
        "matrix": rng.normal(0, 0.1, (7, 5)),
        "bias": rng.normal(0, 0.1, (5,)),
    }
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["pixels"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["planes", "kernel"], ["maps"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["maps"], ["active"]),
        helper.make_node("ReduceMean", ["active"], ["embedding"], axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["embedding", "matrix", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "small network",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", SIZE, SIZE, 3])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", wide])
            for name, wide in {"probabilities": 5, "logits": 5, "embedding": 7}.items()
        ],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    ).SerializeToString()


NETWORK = small_network()
ALONE, SHARED = Graph(NETWORK), Graph(NETWORK, threads=2)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 9))
def test_together_or_alone_with_more_threads_or_one_they_get_the_same(seed, count):
    pictures = list(np.random.default_rng(seed).integers(0, 256, (count, SIZE, SIZE, 3), dtype=np.uint8))
    for graph in (ALONE, SHARED):
        for one, told in zip(pictures, show(graph, pictures), strict=True):
            lone = ALONE.run(one[None])
            for part in ("probabilities", "logits", "embedding"):
                # Here the bits are the same too; ONNX Runtime promises it for no other processor.
                np.testing.assert_allclose(getattr(told, part), getattr(lone, part), rtol=1e-5, atol=1e-6)


def test_what_is_decoded_waits_for_a_thread_and_lets_the_nearly_done_pass():
    """One thread: while it decodes, a decoded picture and another to decode come; the decoded one is next."""
    order, begun, go = [], threading.Event(), threading.Event()
    graph = Shown()

    def first():
        begun.set()
        assert go.wait(10)
        order.append("first")

    async def main():
        batching = Batching(1, 1, Metrics())
        tasks = [asyncio.create_task(batching.decode(first))]
        await asyncio.to_thread(begun.wait, 10)
        tasks.append(asyncio.create_task(batching.decode(lambda: order.append("second"))))
        await asyncio.sleep(0)
        shown = asyncio.create_task(batching.run(version(graph), plain(1)))
        shown.add_done_callback(lambda _: order.append("shown"))
        await asyncio.sleep(0)
        assert graph.batches == []
        go.set()
        await asyncio.gather(*tasks, shown)

    asyncio.run(main())
    assert order == ["first", "shown", "second"]


@pytest.mark.parametrize("when", ["before its turn", "when its turn has come"])
def test_a_picture_that_is_given_up_is_not_decoded_and_blocks_nobody(when):
    decoded, begun, go = [], threading.Event(), threading.Event()

    def first():
        begun.set()
        assert go.wait(10)

    async def main():
        batching = Batching(1, 1, Metrics())
        holder = asyncio.create_task(batching.decode(first))
        await asyncio.to_thread(begun.wait, 10)
        given_up = asyncio.create_task(batching.decode(lambda: decoded.append("given up")))
        await asyncio.sleep(0)
        if when == "before its turn":
            given_up.cancel()
        go.set()
        await holder
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await asyncio.wait_for(batching.decode(lambda: decoded.append("next")), 10)

    asyncio.run(main())
    assert decoded == ["next"]
