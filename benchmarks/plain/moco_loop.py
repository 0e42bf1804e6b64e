"""MoCo on one client as an engineer writes it from the papers: He et al. 2020, with the head of MoCo v2."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import nn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PlainMoCo(nn.Module):
    """Query and key encoder, and a queue that is written over in a ring."""

    def __init__(self, encoder, head, queue, temperature, momentum):
        super().__init__()
        encoder.reset_classifier(0)
        self.query = nn.Sequential(encoder, head).train()
        self.key = deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", queue)
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1))
        self.pointer = 0
        self.temperature = temperature
        self.momentum = momentum

    def forward(self, first, second):
        """The loss of two views, and the keys."""
        query = F.normalize(self.query((first - self.mean) / self.std).float(), dim=1)
        with torch.no_grad():
            keys = F.normalize(self.key((second - self.mean) / self.std).float(), dim=1)
        positive = torch.einsum("nc,nc->n", query, keys).unsqueeze(1)
        logits = torch.cat([positive, query @ self.queue.T], dim=1) / self.temperature
        labels = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        return F.cross_entropy(logits, labels), keys

    @torch.no_grad()
    def after_step(self, keys):
        """The key encoder follows, and the oldest of the queue go."""
        torch._foreach_lerp_(
            list(self.key.parameters()), list(self.query.parameters()), weight=1 - self.momentum
        )
        places = (self.pointer + torch.arange(len(keys), device=keys.device)) % len(self.queue)
        self.queue[places] = keys
        self.pointer = (self.pointer + len(keys)) % len(self.queue)


def train_moco(model, optimizer, batches, autocast):
    """One epoch of pairs of views; returns the mean loss over pictures.

    The key encoder starts as the query encoder, as at the start of a client's round.
    """
    model.key.load_state_dict(model.query.state_dict())
    total, count = torch.zeros((), device=model.queue.device), 0
    for first, second in batches:
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss, keys = model(first, second)
        loss.backward()
        optimizer.step()
        model.after_step(keys)
        total += loss.detach() * len(first)
        count += len(first)
    return total.item() / count
