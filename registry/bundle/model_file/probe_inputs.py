"""What a model is probed with: drawn pictures and cases, each alone and three at a time.

The pictures are noise, black, white and gradients; no patient is in them. Of a model of cases each kind is
shown alone and several in a case, facts are missing or at their bounds, and an empty slot holds noise, which
must have no effect.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import default_rng  # named here, it is loaded while files may still be opened
from numpy.typing import NDArray

from registry.bundle.model_file.graph import Graph, Outputs
from registry.bundle.model_file.promise import BATCH, Promise

_EMPTY = -1  # the kind of a slot without a picture; 0 is of unknown kind, then come those that a model knows


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Batch:
    """What a model is shown at once.

    Attributes:
        names: of each picture or case, as messages name it.
        images: `(batch, size, size, 3)` uint8; of cases `(batch, slots, size, size, 3)`.
        kinds: `(batch, slots)` int64; None for a model of single pictures.
        context: `(batch, facts)` float32; None for a model of single pictures.
    """

    names: tuple[str, ...]
    images: NDArray[np.uint8]
    kinds: NDArray[np.int64] | None = None
    context: NDArray[np.float32] | None = None

    def ask(self, graph: Graph) -> Outputs:
        """What the graph answers, with its map if it has one.

        Raises:
            GraphError: it cannot, or an answer is not finite.
        """
        if self.kinds is None or self.context is None:
            return graph.run(self.images, with_map=True)
        return graph.run_cases(self.images, self.kinds, self.context, with_map=True)

    def alone(self) -> Iterator["Batch"]:
        """Each picture or case by itself, without empty slots."""
        for row, name in enumerate(self.names):
            images = self.images[row : row + 1]
            if self.kinds is None or self.context is None:
                yield Batch((name,), images)
                continue
            there = self.kinds[row] != _EMPTY
            yield Batch((name,), images[:, there], self.kinds[row][None, there], self.context[row][None])


def drawn_batches(promise: Promise) -> Iterator[Batch]:
    """Batches of `BATCH` for a model of this promise; the same ones each time."""
    pictures = _pictures(promise.size)
    if promise.slots is None:
        names = list(pictures)
        for start in range(0, len(names), BATCH):
            chosen = tuple(names[start : start + BATCH])
            yield Batch(chosen, np.stack([pictures[name] for name in chosen]))
        return
    cases = _cases(promise)
    for start in range(0, len(cases), BATCH):
        yield _of_cases(cases[start : start + BATCH], promise, pictures)


def _pictures(size: int) -> dict[str, NDArray[np.uint8]]:
    """Pictures `(size, size, 3)` by name."""
    random = default_rng(20_240_229)
    ramp = np.linspace(0, 255, size).astype(np.uint8)
    across, down = np.broadcast_to(ramp, (size, size)), np.broadcast_to(ramp[:, None], (size, size))
    skin = random.normal((205, 160, 135), 12, (size, size, 3))
    return {
        "noise": random.integers(0, 256, (size, size, 3), dtype=np.uint8),
        "black": np.zeros((size, size, 3), np.uint8),
        "white": np.full((size, size, 3), 255, np.uint8),
        "a gradient": np.stack([across] * 3, axis=-1),
        "a gradient of colours": np.stack([across, down, 255 - across], axis=-1),
        "noise about the colour of skin": np.clip(skin, 0, 255).astype(np.uint8),
    }


@dataclass(frozen=True)
class _Case:
    kinds: tuple[int, ...]
    context: tuple[float, ...]


def _cases(promise: Promise) -> list[_Case]:
    """Cases of each kind alone and of several numbers of pictures, with facts known, missing and mixed."""
    assert promise.slots is not None
    known = range(promise.kinds + 1)
    shown: list[tuple[int, ...]] = [(kind,) for kind in known]
    numbers = sorted({min(2, promise.slots), promise.slots} - {1})
    shown += [tuple(known[place % len(known)] for place in range(number)) for number in numbers]
    while len(shown) % BATCH or len(shown) < BATCH:
        shown.append(shown[len(shown) % (len(known) + len(numbers))])
    facts = (
        tuple(np.nan for _ in promise.facts),
        tuple(low for low, _ in promise.facts),
        tuple(high for _, high in promise.facts),
        tuple(np.nan if place % 2 else high for place, (_, high) in enumerate(promise.facts)),
    )
    return [_Case(kinds, facts[place % len(facts)]) for place, kinds in enumerate(shown)]


def _of_cases(cases: list[_Case], promise: Promise, pictures: dict[str, NDArray[np.uint8]]) -> Batch:
    slots = max(len(one.kinds) for one in cases)
    slots += slots < (promise.slots or 0)  # so that there are empty ones, where the model has slots for them
    drawn = list(pictures.values())
    images = np.repeat(np.repeat(pictures["noise"][None, None], slots, 1), len(cases), 0)
    kinds = np.full((len(cases), slots), _EMPTY, dtype=np.int64)
    for row, case in enumerate(cases):
        kinds[row, : len(case.kinds)] = case.kinds
        for place in range(len(case.kinds)):
            images[row, place] = drawn[(row + place) % len(drawn)]
    context = np.array([one.context for one in cases], dtype=np.float32).reshape(len(cases), -1)
    names = tuple(f"a case of {len(one.kinds)} picture{'s' * (len(one.kinds) > 1)}" for one in cases)
    return Batch(names, images, kinds, context)
