"""`model.onnx`: from uint8 pictures to probabilities, everything between them inside the graph.

The graph of a model of single pictures has one input, `images`, uint8 `(batch, size, size, 3)` with a free
batch. That of a model of cases has three: `images`, uint8 `(batch, slots, size, size, 3)`, `kinds`, int64
`(batch, slots)`, and `context`, float32 `(batch, facts)`, with a free batch and as many slots as are wanted;
what they say is in `registry.bundle.cases`. Without facts there is no `context`.

Both have three float outputs: `probabilities` and `logits` `(batch, classes)`, `embedding` `(batch,
features)`. They may have a fourth, `map`, `(batch, classes, rows, columns)`, of cases `(batch, slots,
classes, rows, columns)` and zero in empty slots: where in a picture each class's logit comes from, in units
of logits before the temperature and about their mean over classes. It is fetched where it is asked for. A
graph brings all its weights with it: one that points to other files is refused, since only the bytes of
`model.onnx` are what was digested.

`Promise` is what a manifest says of its model, in numbers, to which a probe compares it; `Graph` runs it in a
session of ONNX Runtime, on the processor or another device.

`Gaussians` give the distance of a picture from the training pictures (Lee et al. 2018, equations 1 and 2).
With μ_k the mean embedding of class k and Σ = L Lᵀ one covariance that all classes share, that of a picture
whose embedding is x is the squared Mahalanobis distance to the nearest class,

    M(x) = min_k (x − μ_k)ᵀ Σ⁻¹ (x − μ_k) = min_k |L⁻¹ (x − μ_k)|².

The paper's confidence is −M. Distances are counted, and compared with a threshold, in fixed bins of equal
width in log M: 200 to the power of ten, 1.2 % each. Departures: the embedding before the head alone, no
ensemble over layers, no perturbed inputs.
"""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from registry.bundle.errors import GraphError

BATCH: Final = 3
"""Pictures or cases that a probe shows at once."""


@dataclass(frozen=True)
class Promise:
    """What a model takes and answers.

    Attributes:
        size: pixels on both sides of a picture.
        classes: how many probabilities it answers.
        features: the length of the embedding that the manifest's statistics are of; None where it has none.
        slots: how many pictures a case may have; None for a model of single pictures.
        kinds: how many kinds of picture it knows.
        facts: the bounds of each fact of a case.
    """

    size: int
    classes: int
    features: int | None = None
    slots: int | None = None
    kinds: int = 0
    facts: tuple[tuple[float, float], ...] = ()

    @property
    def pixels(self) -> int:
        """The most pixels that a probe shows at once."""
        return BATCH * (self.slots or 1) * self.size**2


# ONNX Runtime reports its use to its makers and writes a device number into the user's cache, unless
# it is told otherwise before it is loaded. Nothing goes over the network uninvited.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


Providers = Sequence[tuple[str, Mapping[str, str]]]
"""Execution providers, the preferred first, each with its options."""

PROCESSOR: Final = "CPUExecutionProvider"


class Session(Protocol):
    """What a graph needs of a session."""

    def get_inputs(self) -> Sequence[Any]:
        """The inputs, each with `name`, `type` and `shape`."""
        ...

    def get_outputs(self) -> Sequence[Any]:
        """The outputs, likewise."""
        ...

    def run(self, names: Sequence[str] | None, feed: Mapping[str, NDArray[Any]]) -> Sequence[Any]:
        """The outputs of these names, all of them where it is None, for inputs by name."""
        ...


Opener = Callable[[bytes, int], Session]
"""Opens a session of the bytes of an ONNX file, with so many threads within one operator."""


def open_session(content: bytes, threads: int, providers: Providers = ((PROCESSOR, {}),)) -> Any:
    """ONNX Runtime's session of a graph with all its weights inside it.

    Args:
        content: the bytes of an ONNX file.
        threads: threads within one operator.
        providers: on what it runs. ONNX Runtime may leave one out without a word: ask `get_providers()`.

    Raises:
        GraphError: ONNX Runtime cannot load it, or its weights are in other files.
    """
    import onnxruntime  # a third of a second, which what only reads manifests need not wait for

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Bytes that begin as ONNX Runtime's own format would else be read as that, whatever ONNX is in them.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised; nothing is printed besides
    # Weights in other files would be looked for in the working directory: look where there are none.
    nothing = tempfile.mkdtemp()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", nothing)
    chosen = [(name, dict(given)) for name, given in providers]
    try:
        session = onnxruntime.InferenceSession(content, options, providers=chosen, enable_fallback=0)
        session._model_bytes = None  # kept for a fallback, which is off
        return session
    except Exception as error:  # ONNX Runtime's exceptions share no base of their own
        if "external data" in str(error).lower():
            raise GraphError(
                f"the graph keeps weights in other files ({error}); save the model with all weights inside it"
            ) from error
        raise GraphError(f"ONNX Runtime cannot load the graph ({error}); export the model again") from error
    finally:
        # Removing what is in it, too, would take file handles, which a probe has none of.
        Path(nothing).rmdir()


INPUT, KINDS, CONTEXT = "images", "kinds", "context"
OUTPUTS = ("probabilities", "logits", "embedding")
MAP = "map"
FINEST_MAP = 64  # rows and columns at most


@dataclass(frozen=True)
class Outputs:
    """The graph's outputs for a batch.

    Attributes:
        probabilities: `(batch, classes)` float32, calibrated.
        logits: `(batch, classes)` float32, divided by the temperature.
        embedding: `(batch, features)` float32.
        map: `(batch, classes, rows, columns)` float32, of cases `(batch, slots, classes, rows, columns)`;
            None if not requested, or if the graph has none.
    """

    probabilities: NDArray[np.float32]
    logits: NDArray[np.float32]
    embedding: NDArray[np.float32]
    map: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Checks the answers.

        Raises:
            GraphError: one is not finite.
        """
        for name in (*OUTPUTS, MAP):
            if (found := getattr(self, name)) is not None and not np.isfinite(found).all():
                raise GraphError(
                    f"the graph answered {name} that are not finite; the model is broken: export it again"
                )


class Graph:
    """A loaded `model.onnx`, ready to run; safe to share between threads.

    Attributes:
        size: pixels on both sides of a picture.
        takes_cases: whether it is of a model of cases.
        num_facts: how many facts of a case it takes.
        num_classes: classes it answers with.
        num_features: length of the embedding.
        map_shape: rows and columns of its map; None where it has none.
    """

    def __init__(self, content: bytes, threads: int = 1, open_with: Opener = open_session) -> None:
        """Loads the graph and checks that it is one a bundle may hold.

        Args:
            content: the bytes of `model.onnx`.
            threads: threads within one operator; other counts may round sums differently. They sleep
                between operators: spinning would take the cores from whatever else runs.
            open_with: opens the session; by default one on the processor.

        Raises:
            GraphError: the bytes are no graph, or one with other inputs, outputs or files.
        """
        self._session = open_with(content, threads)
        self.size, self.takes_cases, self.num_facts = _inputs(self._session.get_inputs())
        outputs = {one.name: one for one in self._session.get_outputs()}
        given = outputs.pop(MAP, None)
        widths = _output_widths([*outputs.values()])
        self.num_classes, self.num_features = widths["probabilities"], widths["embedding"]
        if widths["logits"] != self.num_classes:
            raise GraphError(
                f"the graph has {self.num_classes} probabilities and {widths['logits']} logits; "
                "both are one per class"
            )
        self.map_shape = None if given is None else _map_shape(given, self.takes_cases, self.num_classes)

    def run(self, images: NDArray[np.uint8], *, with_map: bool = False) -> Outputs:
        """Answers for a batch of pictures `(batch, size, size, 3)`.

        Args:
            images: the pictures.
            with_map: whether the map is wanted, where there is one.

        Raises:
            GraphError: the pictures are not of this shape and type, or an answer is not finite.
        """
        shape = (self.size, self.size, 3)
        if self.takes_cases or images.dtype != np.uint8 or images.shape[1:] != shape:
            wanted = "cases" if self.takes_cases else f"uint8 of shape (batch, {self.size}, {self.size}, 3)"
            raise GraphError(
                f"the pictures are {images.dtype} of shape {images.shape}; the graph takes {wanted}"
            )
        return self._run({INPUT: images}, with_map)

    def run_cases(
        self,
        images: NDArray[np.uint8],
        kinds: NDArray[np.int64],
        context: NDArray[np.float32],
        *,
        with_map: bool = False,
    ) -> Outputs:
        """Answers for a batch of cases.

        Args:
            images: `(batch, slots, size, size, 3)`; what is in an empty slot has no effect.
            kinds: of the pictures, `(batch, slots)`; -1 where a slot is empty.
            context: the facts, `(batch, facts)`, NaN where one is not known.
            with_map: whether the map is wanted, where there is one.

        Raises:
            GraphError: they are not of these shapes and types, the graph is of a model of single pictures, or
                an answer is not finite.
        """
        fits = (
            self.takes_cases
            and images.dtype == np.uint8
            and kinds.dtype == np.int64
            and context.dtype == np.float32
            and images.shape == (*kinds.shape, self.size, self.size, 3)
            and context.shape == (len(kinds), self.num_facts)
        )
        if not fits:
            takes = (
                f"images (batch, slots, {self.size}, {self.size}, 3) uint8, kinds (batch, slots) int64 and "
                f"context (batch, {self.num_facts}) float32"
            )
            raise GraphError(
                f"the case has images {images.shape} {images.dtype}, kinds {kinds.shape} {kinds.dtype} and "
                f"context {context.shape} {context.dtype}; the graph takes "
                f"{takes if self.takes_cases else 'single pictures'}"
            )
        feed: dict[str, NDArray[Any]] = {INPUT: images, KINDS: kinds}
        if self.num_facts:
            feed[CONTEXT] = context
        return self._run(feed, with_map)

    def _run(self, feed: dict[str, NDArray[Any]], with_map: bool) -> Outputs:
        if not with_map or self.map_shape is None:
            return Outputs(*self._session.run(list(OUTPUTS), feed))
        return Outputs(*self._session.run([*OUTPUTS, MAP], feed))


def _sizes(value: Any, kind: str, *shape: int | str | None) -> dict[str, int] | None:
    """The sizes that are named in a shape, if the value of a graph has this type and shape; else None.

    Args:
        value: an input or output.
        kind: of its numbers.
        shape: of each dimension its size, the name of a fixed one, or None where it is free.
    """
    found: dict[str, int] = {}
    given = list(value.shape)
    if value.type != f"tensor({kind})" or len(given) != len(shape):
        return None
    for size, wanted in zip(given, shape, strict=True):
        if wanted is None:
            fits = not isinstance(size, int)
        elif isinstance(wanted, int):
            fits = size == wanted
        else:
            fits = isinstance(size, int) and found.setdefault(wanted, size) == size
        if not fits:
            return None
    return found


def _inputs(inputs: Sequence[Any]) -> tuple[int, bool, int]:
    """The picture size, whether the graph takes cases, and the number of facts."""
    by_name = {one.name: one for one in inputs}
    takes_cases = KINDS in by_name
    wanted: dict[str, tuple[Any, ...]] = {INPUT: ("uint8", None, "size", "size", 3)}
    if takes_cases:
        wanted = {INPUT: ("uint8", None, None, "size", "size", 3), KINDS: ("int64", None, None)}
        wanted |= {CONTEXT: ("float", None, "facts")} if CONTEXT in by_name else {}
    found = [_sizes(by_name[name], *shape) for name, shape in wanted.items() if name in by_name]
    sizes = [one for one in found if one is not None]
    if by_name.keys() != wanted.keys() or len(sizes) < len(wanted):
        given = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs)
        raise GraphError(
            f"the graph takes {given}; a bundle's graph takes one input `{INPUT}`, tensor(uint8) of shape "
            f"(batch, size, size, 3) with a free batch; or, of cases, `{INPUT}` (batch, slots, size, size, "
            f"3), `{KINDS}`, tensor(int64) of shape (batch, slots), and `{CONTEXT}`, tensor(float) of shape "
            "(batch, facts), with free batch and slots"
        )
    known = {name: size for one in sizes for name, size in one.items()}
    return known["size"], takes_cases, known.get("facts", 0)


def _map_shape(given: Any, takes_cases: bool, classes: int) -> tuple[int, int]:
    """Rows and columns of a graph's map.

    Raises:
        GraphError: it is none.
    """
    found = _sizes(given, "float", *([None] * (1 + takes_cases)), classes, "rows", "columns")
    if found is None or not all(1 <= side <= FINEST_MAP for side in found.values()):
        raise GraphError(
            f"the graph answers `{MAP}` {given.type} {given.shape}; it is tensor(float) of shape (batch, "
            f"{'slots, ' * takes_cases}{classes} classes, rows, columns) with at most {FINEST_MAP} of either"
        )
    return found["rows"], found["columns"]


def _output_widths(outputs: Sequence[Any]) -> dict[str, int]:
    found = ", ".join(f"{one.name} {one.type} {one.shape}" for one in outputs)
    by_name = {one.name: one for one in outputs}
    fits = sorted(by_name) == sorted(OUTPUTS) and all(
        one.type == "tensor(float)" and len(one.shape) == 2 and isinstance(one.shape[1], int)
        for one in outputs
    )
    if not fits:
        raise GraphError(
            f"the graph answers {found}; a bundle's graph answers {', '.join(OUTPUTS)}, each tensor(float) "
            f"of shape (batch, a fixed width), and maybe a `{MAP}`"
        )
    return {name: int(by_name[name].shape[1]) for name in OUTPUTS}


BINS_PER_DECADE: Final = 200
SMALLEST, LARGEST = -3, 9  # powers of ten
DISTANCE_BINS: Final = BINS_PER_DECADE * (LARGEST - SMALLEST)
"""Bins of a distance: bin i holds [10^(i/200 − 3), 10^((i + 1)/200 − 3)); the outer ones are open."""

_INNER_EDGES: NDArray[np.float64] = 10.0 ** (np.arange(1, DISTANCE_BINS) / BINS_PER_DECADE + SMALLEST)
_INNER_EDGES.flags.writeable = False


def distance_bin(distances: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each distance, 0 to `DISTANCE_BINS` − 1, in the shape of `distances`."""
    return np.searchsorted(_INNER_EDGES, np.asarray(distances, dtype=np.float64), side="right")


def upper_edge(index: int) -> float:
    """The upper edge of the bin `index`; the last bin has none."""
    return float(_INNER_EDGES[index])


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Gaussians:
    """One Gaussian per class over the embedding, with a covariance that all share.

    Attributes:
        means: μ_k, `(classes, features)` float32.
        whitening: L⁻¹, lower triangular, `(features, features)` float32.
    """

    means: NDArray[np.float32]
    whitening: NDArray[np.float32]

    @property
    def num_features(self) -> int:
        """The length of an embedding."""
        return int(self.means.shape[1])

    def distances(self, embedding: NDArray[Any]) -> NDArray[np.float64]:
        """M(x) of each row of `embedding` `(pictures, features)`, `(pictures,)`.

        Raises:
            GraphError: the embedding has another number of features.
        """
        if embedding.ndim != 2 or embedding.shape[1] != self.num_features:
            raise GraphError(
                f"the embedding has shape {embedding.shape}; the distance from the training pictures was "
                f"fitted on {self.num_features} features. Take the graph that the bundle was calibrated with"
            )
        turned, centre, of_class = self._whitened
        white = (np.asarray(embedding, dtype=np.float64) - centre) @ turned
        apart = [((white - mean) ** 2).sum(axis=1) for mean in of_class]
        nearest: NDArray[np.float64] = np.min(apart, axis=0)
        return nearest

    @cached_property
    def _whitened(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """L⁻ᵀ, a point amid the means from which all is measured, and L⁻¹ μ_k from there."""
        turned = self.whitening.astype(np.float64).T
        means = self.means.astype(np.float64)
        centre: NDArray[np.float64] = means.mean(axis=0)
        return turned, centre, (means - centre) @ turned
