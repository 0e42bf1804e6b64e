"""What training asks of a client's data, and the settings of a job's `data` block.

Training never names a data set and never opens a picture file: it sees arrays. Whoever holds the
pictures (`clients.data`, or a test) turns its files into `Examples` as the settings here ask.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from registry.bundle.labels import Label
from registry.bundle.picture import PictureRule
from training.config import FrozenConfig

Split = Literal["train", "validation", "calibration", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "calibration", "test")


@dataclass(frozen=True)
class Examples:
    """The pictures of one split of one client.

    Attributes:
        images: uint8 pictures `(pictures, height, width, 3)`, shared and usually memory-mapped.
        rows: which of `images` belong here, `(n,)` int64.
        labels: class index `(n,)` int64, -1 where there is none.
        subgroups: subgroup index `(n,)` int64, -1 where it is undeclared.
        lesions: lesion number `(n,)` int64; equal numbers are pictures of one lesion.
    """

    images: NDArray[np.uint8]
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    subgroups: NDArray[np.int64]
    lesions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Pictures at `positions` (indices into `rows`), `(batch, height, width, 3)` uint8."""
        return self.images[self.rows[positions]]

    def where(self, keep: NDArray[np.bool_]) -> "Examples":
        """The examples for which `keep` `(n,)` is true."""
        return Examples(
            self.images, self.rows[keep], self.labels[keep], self.subgroups[keep], self.lesions[keep]
        )


class Dataset(Protocol):
    """All clients' data of one job, as the job's `data` block asks; cheap to pickle."""

    @property
    def labels(self) -> Sequence[Label]:
        """The classes, in the order of the model's outputs."""

    @property
    def subgroups(self) -> Sequence[str]:
        """The names of the subgroups, in the order of their indices; empty when none are asked for."""

    @property
    def clients(self) -> Sequence[str]:
        """The clients' ids, in the order in which sums are taken."""

    @property
    def fingerprint(self) -> str:
        """A digest of what the pictures, labels, splits and partition are."""

    def examples(self, client: str, split: Split) -> Examples:
        """The pictures of one split of one client."""


class ToneSubgroups(FrozenConfig):
    """Subgroups by declared skin tone: values of one scale to group names."""

    scale: str
    groups: Mapping[str, tuple[str, ...]]

    @model_validator(mode="after")
    def _each_value_once(self) -> "ToneSubgroups":
        values = [value for group in self.groups.values() for value in group]
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"skin tone {', '.join(twice)} is in two groups; each value belongs to one")
        return self


class ColumnSubgroups(FrozenConfig):
    """Subgroups by any other column of the manifest: reported, never routed."""

    column: str


class ClientsConfig(FrozenConfig):
    """How one manifest becomes clients.

    `subgroup`: one client per subgroup (paper 003). `column`: one per value of `column` (clinics); with
    `count`, values with many pictures are divided until there are so many clients (paper 004, section IV-B).
    `dirichlet`: `count` clients, p_j ~ Dir(alpha) per class (paper 004). `iid`: `count` equal parts.
    `manifest`: one client per manifest file.
    """

    by: Literal["subgroup", "column", "dirichlet", "iid", "manifest"] = "manifest"
    column: str | None = None
    count: int | None = Field(None, ge=1)
    alpha: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _what_each_rule_needs(self) -> "ClientsConfig":
        needs = {"column": ("column",), "dirichlet": ("count", "alpha"), "iid": ("count",)}
        may_have = {"column": ("count",)}
        for name in ("column", "count", "alpha"):
            needed = name in needs.get(self.by, ())
            if needed and getattr(self, name) is None:
                raise ValueError(f"clients by {self.by} needs `{name}`")
            allowed = needed or name in may_have.get(self.by, ())
            if not allowed and getattr(self, name) is not None:
                raise ValueError(f"clients by {self.by} does not use `{name}`; remove it")
        return self


class SplitConfig(FrozenConfig):
    """Shares of the lesions in each split; lesions and patients are never divided."""

    train: float = Field(0.6, gt=0, lt=1)
    validation: float = Field(0.1, ge=0, lt=1)
    calibration: float = Field(0.1, ge=0, lt=1)
    test: float = Field(0.2, ge=0, lt=1)

    @model_validator(mode="after")
    def _sum_to_one(self) -> "SplitConfig":
        total = self.train + self.validation + self.calibration + self.test
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the shares of the splits sum to {total:g}; they must sum to 1")
        return self


class DataConfig(FrozenConfig):
    """The `data` block of a job."""

    added_later: ClassVar[frozenset[str]] = frozenset({"label_fraction"})
    manifest: str | tuple[str, ...] | None = None
    adapter: str | None = None
    folder: str | None = None
    options: Mapping[str, Any] = {}  # the adapter's own settings, checked by the adapter
    where: Mapping[str, str | tuple[str, ...]] = {}  # keep rows whose column has one of these values
    label_map: Literal["malignancy"] | Mapping[str, str | None] | None = None  # None drops the label's rows
    image_size: int = Field(64, ge=8, le=2048)  # pixels, both sides
    subgroups: ToneSubgroups | ColumnSubgroups | None = None
    clients: ClientsConfig = ClientsConfig()
    split: SplitConfig = SplitConfig()
    label_fraction: float = Field(1.0, gt=0, le=1)  # of each client's training pictures; others lose theirs
    on_broken: Literal["refuse", "skip"] = "refuse"  # a picture that cannot be decoded

    @property
    def picture(self) -> PictureRule:
        """How a picture becomes pixels, in training and in service alike."""
        return PictureRule(size=self.image_size)

    @model_validator(mode="after")
    def _one_source(self) -> "DataConfig":
        if (self.manifest is None) == (self.adapter is None):
            raise ValueError("name either `manifest` or `adapter` as the source of the pictures")
        if self.clients.by == "subgroup" and self.subgroups is None:
            raise ValueError("clients by subgroup needs `subgroups`")
        return self
