"""What the plain Flower app and the plain FLARE script share: one client's pictures, its model and its steps.

Pictures are floats in memory before the first round, and batches are cut from them by number: faster than
the loaders of the frameworks' tutorials.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from small_network import Network

HEAD = "encoder.fc."
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@cache
def settings(folder):
    """What the job says."""
    return json.loads((Path(folder) / "settings.json").read_text())


@cache
def pictures(folder, client, split="train"):
    """Normalised pictures, labels, and the order in which each round's epochs show them."""
    held = np.load(Path(folder) / f"{client}-{split}.npz")
    images = torch.from_numpy(held["images"]).permute(0, 3, 1, 2).float().div_(255)
    images = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    return images.contiguous(), torch.from_numpy(held["labels"]), torch.from_numpy(held["orders"])


@cache
def features(folder, client):
    """Of each training picture, by an encoder that does not learn; made once in each process."""
    images, labels, orders = pictures(folder, client)
    with torch.inference_mode():
        parts = [network(folder).eval().encoder.features(some) for some in images.split(32)]
    return torch.cat(parts).clone(), labels, orders


@cache
def network(folder):
    """The model, with the weights that the job begins with."""
    torch.set_num_threads(1)
    model = Network(**settings(folder)["network"])
    model.load_state_dict(load_file(Path(folder) / "initial.safetensors"), strict=False)
    if settings(folder)["trainable"] == "head":
        for name, value in model.named_parameters():
            value.requires_grad_(name.startswith(HEAD))
    return model


def travelling(model, folder):
    """What of the model learns, and goes to and fro."""
    head = settings(folder)["trainable"] == "head"
    return {name: value for name, value in model.state_dict().items() if not head or name.startswith(HEAD)}


def train(model, folder, client, round_):
    """One client's steps of a round, counted from 0; returns how many pictures it has."""
    said = settings(folder)
    head, keeps = said["trainable"] == "head", said["keeps_features"]
    shown, labels, orders = features(folder, client) if keeps else pictures(folder, client)
    learning = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.SGD(learning, said["lr"], momentum=said["momentum"])
    model.train(not head)
    logits = model.encoder.fc if keeps else model
    for order in orders[round_]:
        for batch in order.split(said["batch_size"]):
            optimizer.zero_grad()
            F.cross_entropy(logits(shown[batch]), labels[batch]).backward()
            optimizer.step()
    return len(labels)


def evaluate(model, folder, client):
    """The mean loss, the share that is right, and the number of one client's validation pictures."""
    images, labels, _ = pictures(folder, client, "validation")
    model.eval()
    with torch.inference_mode():
        logits = model(images)
        loss = float(F.cross_entropy(logits, labels))
    return loss, float((logits.argmax(1) == labels).float().mean()), len(labels)
