"""Trying whether a device works."""

import sys

import numpy as np
import onnx
import pytest

from registry.bundle.model_file.graph import Graph
from serving.inference.device import trial
from serving.inference.device.runtime import OnnxRuntime
from serving.inference.device.trial import GRAPH, try_apart, try_out
from tests.serving.inference.device.pretended import Pretended
from tests.serving.inference.device.trial_graph import draw

NOT = '{"why": "took the processor"}'
MISSES = "FAIL : Failed to load library a.so with error: "
SAYS = "import sys; sys.stderr.write({said!r}); print({answer!r}); sys.exit({code})"


def test_the_graph_in_the_file_is_the_one_that_is_drawn():
    assert onnx.load(GRAPH) == draw()
    onnx.checker.check_model(draw(), full_check=True)


def test_its_answer_depends_on_the_picture_and_on_each_node():
    pictures = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    answers = Graph(GRAPH.read_bytes()).run(pictures)
    for part in (answers.probabilities, answers.logits, answers.embedding):
        assert np.ptp(part, axis=0).min() > 1e-3
    assert 0.05 < answers.probabilities.min() < answers.probabilities.max() < 0.95


def test_a_device_that_works_passes():
    assert try_out("cuda", Pretended("cuda")) is None
    assert try_out("cpu", OnnxRuntime()) is None


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        (Pretended("cuda", falls_back=True), "CPUExecutionProvider"),
        (Pretended("cuda", refuses="no kernel image"), "no kernel image"),
        (Pretended("cuda", fits=0), "Failed to allocate"),
        (Pretended("cuda", error=0.01), "differ by up to 0.0"),
    ],
)
def test_one_that_falls_back_fails_or_answers_otherwise_does_not(runtime, why):
    assert why in try_out("cuda", runtime)


def test_the_installed_runtime_that_knows_no_gpu_falls_back_without_a_word_and_is_found_out():
    if "CUDAExecutionProvider" in OnnxRuntime().available():
        pytest.skip("this one knows a GPU")
    assert "took CPUExecutionProvider" in try_apart("cuda")
    assert try_apart("cpu") is None


@pytest.mark.parametrize(
    ("said", "answer", "code", "why"),
    [
        ("", '{"why": null}', 0, None),
        (
            f"[E] {MISSES}libcublas.so.13: cannot open\n",
            NOT,
            0,
            "libcublas.so.13: cannot open (CUDA and cuDNN",
        ),
        (f"[E] {MISSES}libcuda.so.1: cannot open\n", NOT, 0, "libcuda.so.1: cannot open (the GPU's driver"),
        (f"[E] {MISSES}libnvinfer.so.10: cannot open\n", NOT, 0, "(TensorRT"),
        (f"[E] {MISSES}libz.so.1: cannot open\n", NOT, 0, "libz.so.1: cannot open"),
        ("\x1b[0;93m[W] Failed to create CUDA. Require cuDNN 9.*\x1b[m\n", NOT, 0, "Require cuDNN 9"),
        ("CUDA failure 35: the driver is insufficient ; GPU=-1\n", NOT, 0, "the driver is insufficient"),
        ("", NOT, 0, "took the processor"),
        ("a word\n", "", 3, "trying it ended with 3: a word"),
        ("", "[]", 0, "trying it ended with 0: without a word"),
    ],
)
def test_what_the_process_of_a_trial_says_is_understood(monkeypatch, said, answer, code, why):
    python = SAYS.format(said=said, answer=answer, code=code)
    monkeypatch.setattr(trial, "PROGRAM", python)
    found = try_apart("cuda")
    assert found is None if why is None else why in found


def test_a_crash_and_a_driver_that_never_answers_are_told(monkeypatch):
    monkeypatch.setattr(trial, "PROGRAM", "import os; os.kill(os.getpid(), 11)")
    assert "ended with -11" in try_apart("cuda")
    monkeypatch.setattr(trial, "PROGRAM", "import time; time.sleep(600)")
    assert "had not run on it after 0.2 seconds" in try_apart("cuda", 0.2)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "no process can be started" in try_apart("cuda")
