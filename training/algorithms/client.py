"""A client as a stage sees it: its pictures or their features, its stores and the process's local model.

Features are made once by an encoder that does not learn. A picture has one row for each of its views: the
first is of the picture as it is, by which models are judged, the others are of augmented ones, of which
training draws. Features that a head learns on are kept in half precision, those by which an exported model is
judged as the graph makes them.

A client keeps the sets of pictures whose sums it released; new releases are checked against them.
"""

import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import field as made
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from registry.bundle.labels import UNDECLARED
from registry.bundle.score_bins import smallest_cell
from training.algorithms.local_model import LocalModel
from training.data.cells import in_subgroup
from training.data.dataset import Dataset, DatasetView, Examples, Split
from training.data.folds import in_folds
from training.errors import CheckpointError, DataError, MessageError
from training.files import write_bytes
from training.messages import Tensors
from training.progress import Watch, unwatched

MOST_RELEASES = 4096  # releases that a client keeps; each is of another population


class ReleaseStore(Protocol):
    """Keeps the releases of clients, each under its digest.

    Attributes:
        said: what was logged of releases, so that it is said once.
    """

    said: set[str]

    def has(self, client: str, digest: str) -> bool:
        """Whether this release was made."""

    def all(self, client: str) -> Iterable[NDArray[np.int64]]:
        """Every release of a client, as `(pictures, 3)`."""

    def add(self, client: str, digest: str, release: NDArray[np.int64]) -> None:
        """Keep one more."""


class MemoryReleases:
    """Releases that are forgotten with the process; a `ReleaseStore`."""

    def __init__(self) -> None:
        """None were made."""
        self._made: dict[tuple[str, str], NDArray[np.int64]] = {}
        self.said: set[str] = set()

    def has(self, client: str, digest: str) -> bool:
        """Whether this release was made."""
        return (client, digest) in self._made

    def all(self, client: str) -> Iterable[NDArray[np.int64]]:
        """Every release of a client."""
        return [release for (owner, _), release in self._made.items() if owner == client]

    def add(self, client: str, digest: str, release: NDArray[np.int64]) -> None:
        """Keep one more."""
        self._made[client, digest] = release


class FolderReleases:
    """Releases on disk, a file each that is there whole or not at all; a `ReleaseStore`."""

    def __init__(self, folder: Path) -> None:
        """Keep releases in `folder`, which is made with the first."""
        self._folder = folder
        self.said: set[str] = set()

    def has(self, client: str, digest: str) -> bool:
        """Whether this release was made."""
        return self._path(client, digest).exists()

    def all(self, client: str) -> Iterable[NDArray[np.int64]]:
        """Every release of a client.

        Raises:
            MessageError: one cannot be read. Without it nothing can be reported safely.
        """
        for path in sorted(self._place(client).glob("*.npy")):
            try:
                release: NDArray[np.int64] = np.load(path, allow_pickle=False)
            except (OSError, ValueError) as error:
                raise MessageError(
                    f"{client} cannot read what it told before: {error}. Nothing is told until whoever "
                    f"answers for its pictures has looked at {path} and restored or removed it"
                ) from error
            yield release

    def add(self, client: str, digest: str, release: NDArray[np.int64]) -> None:
        """Keep one more.

        Raises:
            MessageError: the disk does not take it, or there are too many.
        """
        if len(list(self._place(client).glob("*.npy"))) >= MOST_RELEASES:
            raise MessageError(
                f"{client} has told counts of {MOST_RELEASES:,} different sets of pictures, the most that it "
                f"keeps an account of; whoever answers for its pictures may put {self._place(client)} away "
                "and begin anew"
            )
        content = io.BytesIO()
        np.save(content, release, allow_pickle=False)
        try:
            write_bytes(self._path(client, digest), content.getvalue())
        except CheckpointError as error:
            raise MessageError(
                f"{client} tells nothing that it cannot keep an account of: {error}"
            ) from error

    def _place(self, client: str) -> Path:
        return self._folder / hashlib.sha256(client.encode()).hexdigest()[:32]

    def _path(self, client: str, digest: str) -> Path:
        return self._place(client) / f"{digest}.npy"


@dataclass(frozen=True)
class State:
    """The state that one client keeps after one round of one stage.

    Attributes:
        tensors: named tensors, any shape.
        scalars: named numbers.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)


class StateStore(Protocol):
    """Keeps the states of clients, so that a resumed run goes on with exactly what it had."""

    def load(self, client: str, stage: str, round: int) -> State | None:
        """The newest state of `client` in `stage` from a round before `round`; None when there is none."""

    def save(self, client: str, stage: str, round: int, state: State) -> None:
        """Keep `state` as what `client` had after `round`; whatever is of a later round is forgotten."""


KEPT = "features"  # before a stage's key, in a client's store; below no stage, so that nothing takes it back
FEATURES, ROWS, OF = "features", "rows", "of"


@dataclass(frozen=True)
class ClientFeatures:
    """Features of the pictures of one split of a client.

    Attributes:
        features: `(pictures * views, width)` float16 or float32, a picture's views after one another.
        rows: the rows of the pictures in the client's images, rising, `(pictures,)`.
    """

    features: NDArray[np.float16] | NDArray[np.float32]
    rows: NDArray[np.int64]

    @property
    def views(self) -> int:
        """How many rows each picture has."""
        return len(self.features) // max(len(self.rows), 1)

    def of(self, examples: Examples) -> Examples:
        """The examples with features in place of pictures.

        Raises:
            DataError: when there is none of a picture.
        """
        cases = examples.cases
        if cases is not None:
            pictures = np.where(cases.present, self._places(np.where(cases.present, cases.pictures, -1)), -1)
            cases = replace(cases, pictures=pictures)
        return replace(
            examples,
            images=self.features,
            rows=self._places(examples.rows),
            names=examples.identities,  # those of pictures, whatever is looked at
            cases=cases,
            views=self.views,
        )

    def _places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the first views of these pictures are; of -1, anywhere."""
        places = np.searchsorted(self.rows, rows).clip(max=max(len(self.rows) - 1, 0))
        if len(self.rows) == 0 and rows.size:
            raise DataError("no picture of this client has features; begin the stage anew")
        if rows.size and ((self.rows[places] != rows) & (rows >= 0)).any():
            raise DataError(
                "a picture of this client has no features: its data changed while the stage ran; begin anew"
            )
        return places * self.views


@dataclass(frozen=True)
class OfFeatures(DatasetView):
    """A dataset with features in place of pictures.

    Attributes:
        kept: the features by split, of one client; others' examples are not looked at through it.
    """

    kept: Mapping[Split, ClientFeatures]

    def examples(self, client: str, split: Split) -> Examples:
        """The examples with features in place of pictures."""
        return self.kept[split].of(self.dataset.examples(client, split))


@dataclass(frozen=True)
class HeadRows:
    """What a linear head takes of a client's training examples.

    Attributes:
        rows: `(n, features)` float64.
        labels: class indices `(n,)` int64.
        mass: what each counts, `(n,)` float64; the rows of one example add up to 1.
        folds: the fold of each, `(n,)` int64; None where the job has none.
        judged: what each counts in the loss of rows that a head has not seen, `(n,)`; None for `mass`.
    """

    rows: torch.Tensor
    labels: torch.Tensor
    mass: torch.Tensor
    folds: torch.Tensor | None = None
    judged: torch.Tensor | None = None


@dataclass(frozen=True)
class FeatureMemory:
    """The features that a process has read or made; a store has them on disk.

    Attributes:
        held: with their digests, by client, stage and split.
        rows: what a linear head takes of them, by client and stage.
    """

    held: dict[tuple[str, str, Split], tuple[str, ClientFeatures]] = field(default_factory=dict)
    rows: dict[tuple[str, str], HeadRows] = field(default_factory=dict)

    def find(
        self, store: StateStore, client: str, stage: str, split: Split
    ) -> tuple[str, ClientFeatures] | None:
        """The digest of a client's features of a stage, and the features; None where there are none."""
        key = client, stage, split
        if key not in self.held:
            state = store.load(client, f"{KEPT}/{stage}/{split}", 1)
            if state is None:
                return None
            tensors = state.tensors
            kept = ClientFeatures(tensors[FEATURES].numpy(), tensors[ROWS].numpy())
            self.held[key] = tensors[OF].numpy().tobytes().hex(), kept
        return self.held[key]

    def keep(
        self, store: StateStore, client: str, stage: str, split: Split, digest: str, features: ClientFeatures
    ) -> None:
        """Keep a client's features of a stage, in place of what there was."""
        tensors = {
            FEATURES: torch.from_numpy(features.features),
            ROWS: torch.from_numpy(features.rows),
            OF: torch.frombuffer(bytearray.fromhex(digest), dtype=torch.uint8),
        }
        store.save(client, f"{KEPT}/{stage}/{split}", 0, State(tensors))
        self.held[client, stage, split] = digest, features


def weights_digest(weights: Tensors) -> str:
    """The SHA-256 of named tensors, in the order of their names."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Client:
    """One client of a job.

    Attributes:
        id: its name in the job.
        seed: the job's seed.
        min_count: statistics of pictures of fewer patients are not reported.
        dataset: where its pictures are.
        store: where it keeps what is not sent.
        local_model: the model it trains on.
        steps: after so many batches a training ends, and nothing of it is sent or kept; None for a whole one.
        releases: the record of the sums it has sent so far.
        noisy: whether what it reports gets noise, and covers one picture of each patient.
        masked: whether what it reports is sent only as a masked sum.
        features: what a frozen encoder made of its pictures.
        watch: receives the progress of a long request.
        crossfit: how many models are trained, each without a fold, with the released one; None for none.
    """

    id: str
    seed: int
    min_count: int
    dataset: Dataset
    store: StateStore
    local_model: LocalModel
    steps: int | None = None
    releases: ReleaseStore = made(default_factory=MemoryReleases)
    noisy: bool = False
    masked: bool = False
    features: FeatureMemory = made(default_factory=FeatureMemory)
    watch: Watch = unwatched
    crossfit: int | None = None

    @property
    def smallest_cell(self) -> int:
        """The fewest patients of an occupied bin of a histogram that leaves.

        With noise it is 1: what is merged would depend on the pictures.
        """
        return 1 if self.noisy else smallest_cell(self.min_count)

    @property
    def subgroups(self) -> tuple[str, ...]:
        """The names of the job's subgroups."""
        return tuple(self.dataset.subgroups)

    def examples(self, split: Split, subgroup: str | None = None) -> Examples:
        """The pictures of one split, of one subgroup if one is named."""
        examples = self.dataset.examples(self.id, split)
        if split == "train" and self.crossfit is not None:
            examples = in_folds(examples, self.id, self.subgroups, self.crossfit, self.min_count)
        return examples if subgroup is None else in_subgroup(examples, self.subgroups, subgroup)

    def by_subgroup(self, split: Split) -> dict[str, Examples]:
        """The pictures of one split by subgroup; those without pictures are absent."""
        whole = self.examples(split)
        parts = {name: in_subgroup(whole, self.subgroups, name) for name in (*self.subgroups, UNDECLARED)}
        return {name: part for name, part in parts.items() if len(part)}
