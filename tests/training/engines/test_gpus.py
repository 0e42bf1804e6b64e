"""Workers on a machine with several GPUs do not all crowd on the first."""

from collections import Counter

import torch

from training.engines.in_process import take_gpu


def test_workers_take_the_gpus_in_turn(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for place in range(6):
        take_gpu(place)
    assert Counter(taken) == {0: 2, 1: 2, 2: 2}


def test_with_one_gpu_or_none_nothing_is_set(monkeypatch):
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: 1 / 0)
    for gpus in (0, 1):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        take_gpu(1)
