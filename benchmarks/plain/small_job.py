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

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@cache
def settings(folder):
    """What the job says."""
    return json.loads((Path(folder) / "settings.json").read_text())


@cache
def pictures(folder, client):
    """Normalised pictures, labels, and the order in which each round's epochs show them."""
    held = np.load(Path(folder) / f"{client}.npz")
    images = torch.from_numpy(held["images"]).permute(0, 3, 1, 2).float().div_(255)
    images = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    return images.contiguous(), torch.from_numpy(held["labels"]), torch.from_numpy(held["orders"])


@cache
def network(folder):
    """The model, with the weights that the job begins with."""
    torch.set_num_threads(1)
    model = Network(**settings(folder)["network"])
    model.load_state_dict(load_file(Path(folder) / "initial.safetensors"), strict=False)
    return model


def train(model, folder, client, round_):
    """One client's steps of a round, counted from 0; returns how many pictures it has."""
    said = settings(folder)
    images, labels, orders = pictures(folder, client)
    optimizer = torch.optim.SGD(model.parameters(), said["lr"], momentum=said["momentum"])
    model.train()
    for order in orders[round_]:
        for batch in order.split(said["batch_size"]):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    return len(labels)
