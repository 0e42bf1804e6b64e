"""One client's pictures, a ResNet-18 and its steps, which the plain Flower app shares.

As a script, `python small_job.py FOLDER`: the same gradient steps on all cores and nothing else; no weights
are exchanged. Pictures are floats in memory before the first round, and batches are cut from them by number:
faster than the loaders of the frameworks' tutorials. The network is He et al. 2016 of any width, its
parameters named as timm names them.
"""

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        """`(batch, after, height / stride, width / stride)`."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + shortcut)


class Encoder(nn.Module):
    """Stem, four layers of two blocks, mean, head."""

    def __init__(self, classes, channels):
        super().__init__()
        first = channels[0]
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        before = [64, *channels[:-1]]
        for number, (one, two) in enumerate(zip(before, channels, strict=True), start=1):
            blocks = nn.Sequential(Block(one, two, 1 if two == first else 2), Block(two, two, 1))
            setattr(self, f"layer{number}", blocks)
        self.fc = nn.Linear(channels[-1], classes)

    def features(self, x):
        """`(batch, channels)`."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return x.mean((2, 3))

    def forward(self, x):
        """Logits `(batch, classes)`."""
        return self.fc(self.features(x))


class Network(nn.Module):
    """The encoder under the name that a job's model gives it."""

    def __init__(self, classes, channels):
        super().__init__()
        self.encoder = Encoder(classes, channels)

    def forward(self, images):
        """Logits."""
        return self.encoder(images)


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
