"""What a model file is refused for: by its header, and by its answers to drawn pictures.

`check_header` reads operators, opsets, remarks and external weights before ONNX Runtime loads the file. ONNX
Runtime refuses what it cannot run. This refuses what another ONNX Runtime than ours might not run, or might
run differently: operators outside the standard, and versions of the standard that are newer than what the
oldest ONNX Runtime that dermfed works with (1.20) knows. And it refuses remarks: texts that compute nothing,
in which exporters leave the folders of the machine that they ran on.

`check_answers` shows the graph drawn pictures and cases, each alone and three at a time: noise, black, white
and gradients, no patient. Of a model of cases each kind is shown alone and several in a case, facts are
missing or at their bounds, and an empty slot has noise, which must have no effect. Each answer is finite; its
probabilities lie in [0, 1] and sum to 1; it is the same, to the bit, when asked again; and it is the same for
a picture alone and among others, but for rounding. Where there is a map, all of that is true of it, and it is
zero in empty slots.

Untrusted bytes are read in the process of a probe alone, which has limits on memory and time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from numpy.random import default_rng
from numpy.typing import NDArray

from registry.bundle.cases import EMPTY
from registry.bundle.errors import GraphError
from registry.bundle.model import BATCH, MAP, OUTPUTS, Graph, Outputs, Promise

STANDARD: Final = "ai.onnx"
OPSETS: Final = {STANDARD: (7, 21), "ai.onnx.ml": (1, 5)}
"""The domains that an operator may be of, with the oldest and newest version of each."""

# What people keep weights in, by its first bytes; loading most of these runs code that they hold.
_OTHER_FILES: Final = {
    b"PK\x03\x04": "a zip archive, as torch.save and Keras write it",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip archive",
    b"\x93NUMPY": "a NumPy array",
}

# ONNX Runtime's own format names itself here, and ONNX Runtime looks there before it reads ONNX.
_ORT_PLACE, _ORT = 4, b"ORTM"

_RANDOM: Final = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)

_REMARKS: Final = frozenset(
    ("doc_string", "metadata_props", "training_info", "configuration", "device_configurations")
)
"""The fields that are remarks: no answer depends on them. Graphs for training are among them."""


@dataclass
class Header:
    """The operators, opsets and external tensors of a graph.

    Attributes:
        opsets: the version of each domain that it was written for.
        operators: how often each operator is used, by domain and name.
        external: names of tensors whose values lie in other files.
        remarks: how many texts there are that compute nothing, by field and kind of message.
    """

    opsets: dict[str, int] = field(default_factory=dict)
    operators: Counter[tuple[str, str]] = field(default_factory=Counter)
    external: list[str] = field(default_factory=list)
    remarks: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, message: Message) -> None:
        """Adds what a message and those within it say."""
        kind = type(message)
        if kind is onnx.NodeProto:
            self.operators[message.domain or STANDARD, message.op_type] += 1
        elif kind is onnx.TensorProto and (message.external_data or message.data_location):
            self.external.append(message.name)
        for described, value in message.ListFields():
            if described.message_type is None and described.name not in _REMARKS:
                continue
            parts: list[Any] = [value] if isinstance(value, Message | str) else list(value)
            if described.name not in _REMARKS:
                for part in parts:
                    self.add(part)
            elif any(parts):
                self.remarks[described.name, kind.__name__] += len(parts)


def check_header(content: bytes) -> None:
    """Checks that a file is ONNX alone, in standard operators of known opsets, with all weights in it.

    And that it holds no remarks.

    Raises:
        GraphError: saying what it holds, what is allowed, and what to do.
    """
    for start, kind in _OTHER_FILES.items():
        if content.startswith(start):
            raise GraphError(f"it is {kind}, and no ONNX; export the model with `torch.onnx.export`")
    if content.startswith(_ORT, _ORT_PLACE):
        raise GraphError(
            "it begins as a file of ONNX Runtime's own format (ORTM), which may hold another model than the "
            "ONNX after it; give the ONNX file that it was made from, as `torch.onnx.export` writes it"
        )
    header = read_header(content)
    if header.external:
        raise GraphError(
            f"it keeps weights in other files ({_few(header.external)}); save the model with all weights "
            "inside it (external_data=False)"
        )
    if header.remarks:
        found = [f"{name} of {kind}: {count}" for (name, kind), count in sorted(header.remarks.items())]
        raise GraphError(
            f"it holds texts that compute nothing ({_few(found)}), which may name a folder, a machine or a "
            "person; export it with this version of dermfed, or clear these fields with the onnx package"
        )
    if custom := sorted({domain for domain, _ in header.operators} - set(OPSETS)):
        found = [f"{domain}::{name}" for domain, name in sorted(header.operators) if domain in custom]
        raise GraphError(
            f"it uses the operators {_few(found)}, which are not of the ONNX standard; allowed are those "
            f"of {' and '.join(OPSETS)}: export it without custom operators, functions and vendors' fusions"
        )
    if random := sorted(name for domain, name in header.operators if domain == STANDARD and name in _RANDOM):
        raise GraphError(
            f"it uses the operators {_few(random)}, which answer differently each time; export it in "
            "evaluation mode (`model.eval()`), without noise"
        )
    for domain in sorted({STANDARD, *(domain for domain, _ in header.operators)}):
        oldest, newest = OPSETS[domain]
        version = header.opsets.get(domain)
        if version is None or not oldest <= version <= newest:
            said = "names no opset" if version is None else f"is of opset {version}"
            raise GraphError(
                f"it {said} of {domain}; allowed are {oldest} to {newest}: export it with "
                f"opset_version={min(20, newest)}"
            )


def read_header(content: bytes) -> Header:
    """Reads the header of a graph.

    Raises:
        GraphError: the bytes are no ONNX.
        MemoryError: there is too little for them.
    """
    try:
        model = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        if "alloc failed" in str(error):
            raise MemoryError from error
        raise _damaged(str(error)) from error
    if not model.HasField("graph"):
        raise _damaged("it holds no graph")
    header = Header({one.domain or STANDARD: one.version for one in model.opset_import})
    header.add(model)
    return header


def _few(names: list[str]) -> str:
    shown = [name[:60] for name in names[:3]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > 3 else "")


def _damaged(what: str) -> GraphError:
    return GraphError(f"it is no ONNX, or a damaged one ({what}); export the model again")


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
            there = self.kinds[row] != EMPTY
            yield Batch((name,), images[:, there], self.kinds[row][None, there], self.context[row][None])


def drawn_batches(promise: Promise) -> Iterator[Batch]:
    """Batches of `BATCH` for a model of this promise; the same ones each time."""
    pictures = _pictures(promise.size)
    if promise.slots is not None:
        yield from _cases(promise, list(pictures.values()))
        return
    names = list(pictures)
    for start in range(0, len(names), BATCH):
        chosen = tuple(names[start : start + BATCH])
        yield Batch(chosen, np.stack([pictures[name] for name in chosen]))


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


def _cases(promise: Promise, pictures: Sequence[NDArray[np.uint8]]) -> Iterator[Batch]:
    """Cases of each kind alone and of several numbers of pictures, with facts known, missing and mixed."""
    assert promise.slots is not None
    known = range(promise.kinds + 1)
    shown: list[tuple[int, ...]] = [(kind,) for kind in known]
    numbers = sorted({min(2, promise.slots), promise.slots} - {1})
    shown += [tuple(known[place % len(known)] for place in range(number)) for number in numbers]
    shown = [shown[place % len(shown)] for place in range(max(BATCH, -(-len(shown) // BATCH) * BATCH))]
    facts = (
        [np.nan for _ in promise.facts],
        [low for low, _ in promise.facts],
        [high for _, high in promise.facts],
        [np.nan if place % 2 else high for place, (_, high) in enumerate(promise.facts)],
    )
    for start in range(0, len(shown), BATCH):
        chosen = shown[start : start + BATCH]
        slots = max(map(len, chosen))
        slots += slots < promise.slots  # so that there are empty ones, where the model has slots for them
        images = np.repeat(np.repeat(pictures[0][None, None], slots, 1), BATCH, 0)
        kinds = np.full((BATCH, slots), EMPTY, dtype=np.int64)
        for row, case in enumerate(chosen):
            kinds[row, : len(case)] = case
            for place in range(len(case)):
                images[row, place] = pictures[(row + place) % len(pictures)]
        context = [facts[(start + row) % len(facts)] for row in range(BATCH)]
        yield Batch(
            tuple(f"a case of {len(case)} picture{'s' * (len(case) > 1)}" for case in chosen),
            images,
            kinds,
            np.array(context, dtype=np.float32).reshape(BATCH, -1),
        )


TOLERANCE: Final = 1e-3
"""How far probabilities may be from a sum of 1 and, alone and among others, from each other.

Of logits and embedding it is a share of the largest absolute value among them, or of 1 if that is larger.
"""


def check_answers(graph: Graph, promise: Promise) -> None:
    """Asks a graph about all that is drawn for it.

    Raises:
        GraphError: saying what it was shown, what is wrong with its answer, and what to do.
    """
    for batch in drawn_batches(promise):
        answers = _ask(graph, batch)
        _check_probabilities(answers, batch)
        _check_again(answers, _ask(graph, batch), batch)
        _check_map(answers, graph, batch)
        for row, alone in enumerate(batch.alone()):
            _check_alone(answers, _ask(graph, alone), row, alone)


def _ask(graph: Graph, batch: Batch) -> Outputs:
    try:
        answers = batch.ask(graph)
    except GraphError as error:
        raise GraphError(f"shown {_shown(batch)}, {error}") from error
    except Exception as error:
        # ONNX Runtime's exceptions share no base of their own.
        raise GraphError(
            f"shown {_shown(batch)}, the graph fails ({error}); export the model again"
        ) from error
    widths = {
        "probabilities": graph.num_classes,
        "logits": graph.num_classes,
        "embedding": graph.num_features,
    }
    for name, width in widths.items():
        if (shape := getattr(answers, name).shape) != (len(batch.names), width):
            raise GraphError(
                f"shown {_shown(batch)}, the graph answers {name} of shape {shape}; it says that they are "
                f"{(len(batch.names), width)}: export the model again"
            )
    return answers


def _check_probabilities(answers: Outputs, batch: Batch) -> None:
    for name, row in zip(batch.names, answers.probabilities, strict=True):
        total = float(row.sum(dtype=np.float64))
        if row.min() < 0 or row.max() > 1 + TOLERANCE or abs(total - 1) > TOLERANCE:
            raise GraphError(
                f"shown {name}, the graph answers probabilities from {row.min():g} to {row.max():g} that sum "
                f"to {total:g}; they lie between 0 and 1 and sum to 1: export the model with its softmax"
            )


def _check_again(first: Outputs, second: Outputs, batch: Batch) -> None:
    for name in _told(first):
        before, after = getattr(first, name), getattr(second, name)
        if not np.array_equal(before, after):
            raise GraphError(
                f"shown {_shown(batch)} twice, the graph answers {name} that differ by up to "
                f"{_largest(before - after):g}; the same pictures get the same answer: export the model in "
                "evaluation mode (`model.eval()`), without dropout and noise"
            )


def _check_map(answers: Outputs, graph: Graph, batch: Batch) -> None:
    """The map is of the shape that the graph says, and nothing where there is no picture."""
    if answers.map is None or graph.map_shape is None:
        return
    of_each = (len(batch.names),) if batch.kinds is None else batch.kinds.shape
    expected = (*of_each, graph.num_classes, *graph.map_shape)
    if answers.map.shape != expected:
        raise GraphError(
            f"shown {_shown(batch)}, the graph answers a map of shape {answers.map.shape}; it says that it "
            f"is {expected}: export the model again"
        )
    if batch.kinds is not None and np.any(answers.map[batch.kinds < 0]):
        raise GraphError(
            f"shown {_shown(batch)}, the graph answers a map of a slot without a picture; it is zero there: "
            "export the model again"
        )


def _told(answers: Outputs) -> tuple[str, ...]:
    return OUTPUTS if answers.map is None else (*OUTPUTS, MAP)


def _check_alone(among: Outputs, alone: Outputs, row: int, batch: Batch) -> None:
    for name in _told(among):
        before, after = getattr(among, name)[row], getattr(alone, name)[0]
        if name == MAP and batch.kinds is not None:
            before = before[: batch.kinds.shape[1]]  # empty slots stand last, and are not there alone
        allowed = TOLERANCE if name == "probabilities" else TOLERANCE * max(1.0, _largest(before))
        if (difference := _largest(before - after)) > allowed:
            raise GraphError(
                f"shown {_shown(batch)} alone and among others, the graph answers {name} that differ by up "
                f"to {difference:g}; allowed is {allowed:g}: an answer does not depend on what else is in a "
                "batch or in empty slots. Export the model in evaluation mode (`model.eval()`)"
            )


def _largest(values: NDArray[np.float32]) -> float:
    return float(np.abs(values).max(initial=0.0))


def _shown(batch: Batch) -> str:
    return ", ".join(dict.fromkeys(batch.names))
