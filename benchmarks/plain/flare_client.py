"""A client of FLARE's simulator, as FLARE's hello-pt example writes it: receive, train, send."""

import argparse
import json
import sys
import time
from pathlib import Path

import nvflare.client as flare

parser = argparse.ArgumentParser()
parser.add_argument("--folder")
parser.add_argument("--plain")
arguments = parser.parse_args()
sys.path.insert(0, arguments.plain)
from small_job import evaluate, network, settings, train, travelling  # noqa: E402

flare.init()
folder = arguments.folder
site = int(flare.get_site_name().removeprefix("site-"))
client = settings(folder)["clients"][site - 1]
model = network(folder)
times = []
while flare.is_running():
    received = flare.receive()
    if received is None:
        break
    times.append(time.time())
    model.load_state_dict(received.params, strict=False)
    metrics = {}
    if settings(folder)["evaluates"]:
        loss, accuracy, _ = evaluate(model, folder, client)
        metrics = {"loss": loss, "accuracy": accuracy}
    count = train(model, folder, client, received.current_round)
    flare.send(
        flare.FLModel(
            params={name: value.cpu() for name, value in travelling(model, folder).items()},
            metrics=metrics or None,
            meta={"NUM_STEPS_CURRENT_ROUND": count},
        )
    )
(Path(folder) / f"times-{site}.json").write_text(json.dumps(times))
