"""Federated averaging as Flower's tutorials write it, over Ray. `python … FOLDER`."""

import json
import sys
import time
from pathlib import Path

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from safetensors.torch import save_file

FOLDER = sys.argv[1]
sys.path.insert(0, str(Path(__file__).parent))  # the actors' too: they read this file
from small_job import evaluate, network, settings, train, travelling  # noqa: E402

client_app, server_app = ClientApp(), ServerApp()


@client_app.train()
def train_client(message, context):
    """One client's round."""
    model = network(FOLDER)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict(), strict=False)
    client = settings(FOLDER)["clients"][context.node_config["partition-id"]]
    count = train(model, FOLDER, client, message.content["config"]["server-round"] - 1)
    arrays = ArrayRecord(travelling(model, FOLDER))
    told = {"arrays": arrays, "metrics": MetricRecord({"num-examples": count})}
    return Message(content=RecordDict(told), reply_to=message)


@client_app.evaluate()
def evaluate_client(message, context):
    """One client's judgement of a round's model."""
    model = network(FOLDER)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict(), strict=False)
    client = settings(FOLDER)["clients"][context.node_config["partition-id"]]
    loss, accuracy, count = evaluate(model, FOLDER, client)
    told = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": count})
    return Message(content=RecordDict({"metrics": told}), reply_to=message)


@server_app.main()
def main(grid, context):
    """All rounds."""
    said, times = settings(FOLDER), []
    strategy = FedAvg(
        fraction_evaluate=float(said["evaluates"]),
        min_train_nodes=4,
        min_evaluate_nodes=4 if said["evaluates"] else 0,
        min_available_nodes=4,
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(travelling(network(FOLDER), FOLDER)),
        num_rounds=said["rounds"],
        evaluate_fn=lambda round_, arrays: times.append(time.time()),
    )
    tensors = {name: value.contiguous() for name, value in result.arrays.to_torch_state_dict().items()}
    save_file(tensors, Path(FOLDER) / "final.safetensors")
    (Path(FOLDER) / "times.json").write_text(json.dumps(times))


if __name__ == "__main__":
    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=len(settings(FOLDER)["clients"]),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
