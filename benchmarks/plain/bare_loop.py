"""The same gradient steps on all cores, and nothing else: no weights are exchanged. `python … FOLDER`."""

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from safetensors.torch import save_file
from small_job import evaluate, network, settings, train


def one(folder, round_, client):
    """One client's steps, from wherever its process' model is."""
    train(network(folder), folder, client, round_)
    if settings(folder)["evaluates"]:
        evaluate(network(folder), folder, client)


if __name__ == "__main__":
    folder = sys.argv[1]
    said, times = settings(folder), []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for round_ in range(said["rounds"]):
            list(pool.map(partial(one, folder, round_), said["clients"]))
            times.append(time.time())
    save_file(network(folder).state_dict(), Path(folder) / "final.safetensors")
    (Path(folder) / "times.json").write_text(json.dumps(times))
