"""Models on a device: what they must show before they answer, and what is left when they go."""

import gc
import logging
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from registry.bundle.errors import GraphError
from registry.bundle.model_file.graph import Graph
from registry.bundle.model_file.probe_answers import TOLERANCE
from serving.inference.device.batching import Batching, batching_of
from serving.inference.device.device import ON_PROCESSOR, Device
from serving.inference.device.models import Models
from serving.settings import ServeSettings
from tests.case_bundles import case_bundle
from tests.serving.inference.device.pretended import Pretended

FEW = Batching(max_batch=4)
PICTURES = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)


def on_gpu(runtime, kind="cuda", **parts):
    """Models on the GPU of a runtime."""
    return Models(Device(kind, runtime=runtime, **parts), batching=FEW)


def load(models, bundle):
    """The loaded model of a bundle."""
    return models.load(bundle.model, bundle.manifest)


@pytest.mark.parametrize("kind", ["cuda", "tensorrt"])
def test_a_model_answers_as_on_the_processor_and_every_input_is_bound(bundle, kind):
    runtime = Pretended("cuda", "tensorrt")
    loaded = load(on_gpu(runtime, kind), bundle())
    ours, theirs = loaded.graph.run(PICTURES), Graph(bundle().model).run(PICTURES)
    np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
    (session,) = runtime.sessions
    assert session.bound["images"] == len(runtime.ran)
    assert loaded.lone_graph is None


def test_it_runs_every_size_of_batch_before_it_is_compared_with_the_processor(bundle):
    runtime = Pretended("cuda")
    load(on_gpu(runtime), bundle())
    assert runtime.ran[:3] == [1, 4, 2]
    assert set(runtime.ran[3:]) == {3, 1}  # the drawn pictures, three at once and each alone


def test_a_model_of_cases_is_warmed_up_with_whole_cases_too():
    runtime, drawn = Pretended("cuda"), case_bundle()
    loaded = load(on_gpu(runtime), drawn)
    assert runtime.ran[:6] == [1, 4, 2] * 2
    assert loaded.graph.takes_cases
    (session,) = runtime.sessions
    assert session.bound["kinds"] == session.bound["images"] == len(runtime.ran)


@pytest.mark.parametrize(("error", "refused"), [(TOLERANCE / 2, False), (TOLERANCE * 2, True)])
def test_a_difference_beyond_the_tolerance_is_refused(bundle, error, refused):
    models = on_gpu(Pretended("cuda", error=error))
    if not refused:
        load(models, bundle())
        return
    with pytest.raises(GraphError, match=r"differ by up to .* allowed is 0.001.*DERMFED_SERVE_PROVIDERS=cpu"):
        load(models, bundle())


def test_tensorfloat_is_tried_first_and_given_up_where_it_is_too_coarse(bundle, caplog):
    caplog.set_level(logging.INFO, "dermfed.serve")
    runtime = Pretended("cuda", tf32_error=0.01)
    loaded = load(on_gpu(runtime), bundle())
    allowed = [given["use_tf32"] for providers, _ in runtime.asked for name, given in providers if given]
    assert allowed == ["1", "0"]
    assert "it runs without" in caplog.text
    theirs = Graph(bundle().model).run(PICTURES)
    np.testing.assert_array_equal(loaded.graph.run(PICTURES).logits, theirs.logits)
    exact = Pretended("cuda")
    load(on_gpu(exact), bundle())
    assert len(exact.asked) == 1


def test_a_session_that_fell_back_to_the_processor_is_refused(bundle):
    with pytest.raises(GraphError, match="took CPUExecutionProvider for the model in place of CUDA"):
        load(on_gpu(Pretended("cuda", falls_back=True)), bundle())


def test_memory_that_does_not_hold_the_largest_batch_is_told_at_load(bundle):
    with pytest.raises(GraphError, match=r"with 4 at once \(Failed to allocate.*DERMFED_SERVE_MAX_BATCH"):
        load(on_gpu(Pretended("cuda", fits=3)), bundle())


def test_nodes_that_stay_on_the_processor_are_told(bundle, caplog):
    load(on_gpu(Pretended("cuda", left=["Resize", "TopK", "Resize"])), bundle())
    assert "2 Resize, 1 TopK of the model's nodes do not run on a GPU (CUDA)" in caplog.text


def test_settings_reach_the_session(bundle):
    runtime = Pretended("cuda")
    load(on_gpu(runtime, device_bytes=2**28), bundle())
    ((providers, entries),) = runtime.asked
    (name, given), (last, _) = providers
    assert (name, last) == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert given["gpu_mem_limit"] == str(2**28)
    assert given["arena_extend_strategy"] == "kSameAsRequested"
    assert entries == {"session.record_ep_graph_assignment_info": "1"}


def test_a_device_runs_one_batch_at_a_time(bundle):
    runtime = Pretended("cuda")
    graph = load(on_gpu(runtime), bundle()).graph
    together, runtime.lets_others_in = threading.Barrier(4), True

    def ask(_):
        together.wait(60)
        for _ in range(20):
            graph.run(PICTURES)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, range(4)))
    assert runtime.most_at_once == 1


def test_nothing_of_a_model_is_left_when_it_goes(bundle):
    runtime = Pretended("cuda", tf32_error=0.01)
    loaded = load(on_gpu(runtime), bundle())
    gone = weakref.ref(loaded.graph)
    assert len(runtime.sessions) == 1  # the one with TensorFloat-32 is gone already
    del loaded
    gc.collect()
    assert gone() is None
    assert len(runtime.sessions) == 0


def test_on_the_processor_no_runtime_is_asked_and_threads_are_as_set(bundle):
    runtime = Pretended("cuda")
    for threads, lone in ((1, False), (2, True)):
        loaded = load(Models(Device("cpu", runtime=runtime), threads), bundle())
        assert (loaded.lone_graph is not None) is lone
    assert runtime.asked == []


def test_threads_are_measured_once_for_models_that_are_alike(bundle, light):
    ticks = []

    def clock():
        ticks.append(0.0)
        return 0.0

    models = Models(lone_threads="auto", most_threads=2, clock=clock)
    assert load(models, bundle()).lone_graph is not None  # 0 is no more than a share of 0
    measured = len(ticks)
    assert measured > 0
    assert load(models, bundle(light, seed=1)).lone_graph is not None
    assert len(ticks) == measured
    assert load(Models(lone_threads="auto", most_threads=1), bundle()).lone_graph is None


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("cpu", {}, Batching(1, 0.0, False)),
        ("cpu", {"max_batch": 8, "gather_seconds": 0.01}, Batching(8, 0.01, False)),
        ("cuda", {}, Batching(32, 0.002, True)),
        ("tensorrt", {"max_batch": 128, "gather_seconds": 0}, Batching(128, 0.0, True)),
    ],
)
def test_how_pictures_are_put_together_depends_on_the_device(kind, given, expected):
    assert batching_of(ServeSettings(**given), Device(kind)) == expected


def test_sizes_of_a_warm_up():
    assert Batching(1).sizes == (1,)
    assert Batching(2).sizes == (1, 2)
    assert Batching(6).sizes == (1, 6, 2, 4)
    assert Batching(32).sizes == (1, 32, 2, 4, 8, 16)
    assert Models().batching.sizes == (1,)
    assert ON_PROCESSOR.health_issue is None
