"""Features of a client's pictures, made once by an encoder that does not learn, in place of the pictures.

A picture has one row for each of its views: the first is of the picture as it is, by which models are judged,
the others are of augmented ones, of which training draws. Features that a head learns on are kept in half
precision, those by which an exported model is judged as the graph makes them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from training.algorithms.client_state import State, StateStore
from training.data.dataset import Examples, Split
from training.data.view import DatasetView
from training.errors import DataError
from training.messages.message import Tensors

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
