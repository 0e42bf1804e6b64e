"""The settings of a job's `data` block: sources, subgroups, splits, and how manifests become clients.

Training never names a data set and never opens a picture file: it sees arrays. The owner of the pictures
(`clients.data`, or a test) turns its files into `Examples` as the settings here ask.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from registry.bundle.cases import KNOWN, CaseInput, Fact, Kind
from registry.bundle.pictures.rule import Interpolation, PictureRule
from registry.bundle.text import nearest
from training.config import FrozenConfig
from training.data.dataset import SERVER, UNLABELLED_CLIENT
from training.data.subgroups import ColumnSubgroups, IntersectionConfig, Subgroups
from training.errors import JobError, public

LabelMap = Literal["malignancy"] | Mapping[str, str | None] | None  # None drops the label's rows


class ClientsConfig(FrozenConfig):
    """How manifests become clients.

    `subgroup`: one client per subgroup (paper 003). `column`: one per value of `column` (clinics); with
    `count`, values with many pictures are divided until there are so many clients (paper 004, section IV-B).
    `dirichlet`: `count` clients, p_j ~ Dir(alpha) per class (paper 004). `iid`: `count` equal parts.
    `manifest`: one client per manifest file. `source`: as many clients of each source as its `count` says
    (paper 002: five of ISIC 2019, three of HAM10000, and Derm7pt and PAD-UFES-20).
    """

    by: Literal["subgroup", "column", "dirichlet", "iid", "manifest", "source"] = "manifest"
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


def numbered(name: str, count: int) -> tuple[str, ...]:
    """The ids of `count` clients of one origin: `name` alone, or `name-0`, `name-1` and so on."""
    width = len(str(count - 1))
    return tuple(f"{name}-{part:0{width}d}" for part in range(count)) if count > 1 else (name,)


class SourceConfig(FrozenConfig):
    """One of several named data sets, and the clients that it becomes.

    Attributes:
        name: what its clients are called.
        manifest: its manifest, or
        adapter: who reads its `folder`, with the adapter's own `options`.
        where: which of its rows are kept, besides the job's `where`.
        label_map: its codes to common ones, before the job's `label_map`.
        count: how many clients get an equal part of it.
        unseen: its clients train nothing and are only asked, in two classes; see `Examples.labels`.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    manifest: str | None = None
    adapter: str | None = None
    folder: str | None = None
    options: Mapping[str, Any] = {}
    where: Mapping[str, str | tuple[str, ...]] = {}
    label_map: LabelMap = None
    count: int = Field(1, ge=1)
    unseen: bool = False

    @property
    def clients(self) -> tuple[str, ...]:
        """The ids of the clients that it becomes where clients are by source."""
        return numbered(self.name, self.count)

    @model_validator(mode="after")
    def _one_origin(self) -> "SourceConfig":
        if (self.manifest is None) == (self.adapter is None):
            raise ValueError(f"source {self.name} needs either `manifest` or `adapter`")
        if self.adapter is None and (self.folder is not None or self.options):
            raise ValueError(
                f"source {self.name} has a manifest, which uses neither `folder` nor `options`; remove them"
            )
        return self


class ServerConfig(FrozenConfig):
    """Pictures at the coordinator: the client `SERVER`, whose labels are never withheld.

    Attributes:
        share: of the components of every client that is not unseen.
        train: the share of them to train on; the others are for validation.
    """

    share: float = Field(gt=0, lt=1)
    train: float = Field(0.8, ge=0, le=1)


class CasesConfig(FrozenConfig):
    """What a lesion has: its pictures by the manifest's column `image_kind`, and facts from other columns.

    Attributes:
        slots: how many pictures; of a lesion that has more, one of each kind is taken first.
        kinds: those that are distinguished; others are pictures of unknown kind.
        facts: `age`, `sex`, `site`, or another column with its bounds or values.
    """

    slots: int = Field(2, ge=1, le=8)
    kinds: tuple[Kind, ...] = ("close-up", "dermoscopic")
    facts: tuple[str | Fact, ...] = ("age", "sex", "site")

    @field_validator("facts")
    @classmethod
    def _facts_with_a_vocabulary(cls, facts: tuple[str | Fact, ...]) -> tuple[str | Fact, ...]:
        for fact in facts:
            if isinstance(fact, str) and fact not in KNOWN:
                raise ValueError(
                    f"fact {fact} needs its values or bounds: {{kind: category, name: {fact}, "
                    f"values: [...]}} or {{kind: number, name: {fact}, low: ..., high: ...}}; known by name "
                    f"are {', '.join(KNOWN)}; {nearest(fact, list(KNOWN))}"
                )
        return facts

    @model_validator(mode="after")
    def _each_once(self) -> "CasesConfig":
        assert self.input  # refuses what is named twice
        return self

    @property
    def input(self) -> CaseInput:
        """What a model of such cases takes."""
        facts = tuple(KNOWN[fact] if isinstance(fact, str) else fact for fact in self.facts)
        return CaseInput(slots=self.slots, kinds=self.kinds, facts=facts)


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

    manifest: str | tuple[str, ...] | None = None
    adapter: str | None = None
    sources: tuple[SourceConfig, ...] = ()
    folder: str | None = None
    options: Mapping[str, Any] = {}  # the adapter's own settings, checked by the adapter
    where: Mapping[str, str | tuple[str, ...]] = {}  # keep rows whose column has one of these values
    train_only: Mapping[str, str | tuple[str, ...]] = {}  # rows to train on that no model is judged by
    label_map: LabelMap = None
    kinds: Mapping[str, str] = {}  # of malignancy, by the code of a class; others are as the taxonomy says
    groups: Mapping[str, str] = {}  # of diagnoses, likewise
    image_size: int = Field(64, ge=8, le=2048)  # pixels, both sides
    interpolation: Interpolation | None = None  # when resizing; null for what the encoder's weights say
    subgroups: Subgroups | None = None
    clients: ClientsConfig = ClientsConfig()
    crossfit: int | None = Field(None, ge=2, le=20)  # folds, each scored by a model that did not see it
    split: SplitConfig = SplitConfig()
    server: ServerConfig | None = None
    label_fraction: float = Field(1.0, ge=0, le=1)  # of each client's training pictures; others lose theirs
    labelled_clients: tuple[str, ...] | None = (
        None  # all others lose the labels of training; None is everyone
    )
    unlabelled_at: Literal["clients", "one"] = "clients"  # one: at a client of their own, `UNLABELLED_CLIENT`
    on_broken: Literal["refuse", "skip"] = "refuse"  # a picture that cannot be decoded
    unit: Literal["picture", "lesion"] = "picture"  # what is diagnosed: each picture by itself, or a case
    cases: CasesConfig | None = None  # what a lesion has; null for `CasesConfig()`

    @property
    def case(self) -> CaseInput | None:
        """What a case has; None where pictures are diagnosed by themselves."""
        return (self.cases or CasesConfig()).input if self.unit == "lesion" else None

    @property
    def picture(self) -> PictureRule:
        """How a picture becomes pixels for an encoder that does not say it; see `JobSettings.picture`."""
        return PictureRule(size=self.image_size, interpolation=self.interpolation or "bilinear")

    @model_validator(mode="after")
    def _one_origin(self) -> "DataConfig":
        named = [name for name in ("manifest", "adapter") if getattr(self, name) is not None]
        named += ["sources"] if self.sources else []
        if len(named) != 1:
            found = f", not {' and '.join(f'`{name}`' for name in named)}" if named else ""
            raise ValueError(
                f"name one of `manifest`, `adapter` and `sources` as the source of the pictures{found}"
            )
        if self.sources and (self.folder is not None or self.options):
            raise ValueError("`folder` and `options` belong to one of the `sources`; move them there")
        return self

    @model_validator(mode="after")
    def _calibrates_once(self) -> "DataConfig":
        if self.crossfit is not None and "split" not in self.model_fields_set:
            folded = SplitConfig(train=0.8, validation=0, calibration=0, test=0.2)
            object.__setattr__(self, "split", folded)  # the shares of a job that names none
        if self.crossfit is not None and self.split.calibration:
            raise ValueError(
                f"crossfit calibrates on training pictures, and split.calibration is "
                f"{self.split.calibration:g}; set it to 0, or remove crossfit"
            )
        return self

    @model_validator(mode="after")
    def _cases_of_lesions(self) -> "DataConfig":
        if self.unit == "picture" and self.cases is not None:
            raise ValueError("`cases` says what a lesion has; set `unit: lesion`, or remove it")
        return self

    @model_validator(mode="after")
    def _what_clients_need(self) -> "DataConfig":
        by = self.clients.by
        if by == "subgroup" and self.subgroups is None:
            raise ValueError("clients by subgroup needs `subgroups`")
        if by == "source" and not self.sources:
            raise ValueError("clients by source needs `sources`")
        divided = [source.name for source in self.sources if source.count > 1]
        if divided and by != "source":
            raise ValueError(
                f"source {', '.join(divided)} has a `count`, which clients by {by} does not use; "
                f"set `clients: {{by: source}}`, or remove it"
            )
        return self

    @model_validator(mode="after")
    def _sources_that_can_be_told_apart(self) -> "DataConfig":
        taken = sorted({source.name for source in self.sources} & {SERVER, UNLABELLED_CLIENT})
        if taken:
            raise ValueError(
                f"a source may not be called {' or '.join(taken)}: this is the name of a client that a job "
                f"makes; rename it"
            )
        clients = [client for source in self.sources for client in source.clients]
        twins = sorted({client for client in clients if clients.count(client) > 1})
        if twins:
            raise ValueError(f"two clients of `sources` would be called {', '.join(twins)}; rename a source")
        if self.sources and all(source.unseen for source in self.sources):
            raise ValueError("all `sources` are unseen, so there is nothing to train on; add one that is not")
        return self

    @model_validator(mode="after")
    def _labels_somewhere(self) -> "DataConfig":
        if self.label_fraction == 0 and (self.server is None or self.server.train == 0):
            raise ValueError(
                "label_fraction 0 leaves no label to train on; raise it, or put labels at the coordinator "
                "with `server` and a `train` above 0"
            )
        if self.labelled_clients is not None and not self.labelled_clients:
            raise ValueError(
                "`labelled_clients` names no client; remove it, or set `label_fraction: 0` for labels at the "
                "server alone"
            )
        if self.labelled_clients and self.label_fraction == 0:
            raise ValueError(
                f"`labelled_clients` {', '.join(self.labelled_clients)} would keep labels, but "
                f"label_fraction is 0; raise it, or remove `labelled_clients`"
            )
        return self


IDENTIFYING = ("image", "lesion_id", "patient_id", "duplicate_group")
"""The columns that name a picture, a lesion, a patient, or pictures that show the same."""


def selecting_columns(
    data: DataConfig, intersections: Sequence[IntersectionConfig]
) -> Mapping[str, tuple[str, ...]]:
    """The settings of a job that select by a column of the manifest, by column.

    `where` and `train_only` filter; subgroups and intersections by column divide; so does a fact of a case
    whose values the job makes up, since a weight of the model is then trained on one value's pictures alone.

    Args:
        data: the job's `data` block.
        intersections: its `evaluation.intersections`.
    """
    named = [("data.where", column) for column in data.where]
    named += [(f"data.sources.{each.name}.where", column) for each in data.sources for column in each.where]
    named += [("data.train_only", column) for column in data.train_only]
    if isinstance(data.subgroups, ColumnSubgroups):
        named.append(("data.subgroups", data.subgroups.column))
    named += [("evaluation.intersections", each.column) for each in intersections]
    if data.cases is not None:
        own = [fact for fact in data.cases.facts if not isinstance(fact, str)]
        named += [("data.cases.facts", fact.name) for fact in own]
    columns = dict.fromkeys(column for _, column in named)
    return {column: tuple(what for what, of in named if of == column) for column in columns}


def identifying(column: str) -> bool:
    """Whether a column names single pictures, lesions or patients, however it is spelt."""
    return column.strip().casefold().replace("-", "_").replace(" ", "_") in IDENTIFYING


def refuse_identifying(data: DataConfig, intersections: Sequence[IntersectionConfig]) -> None:
    """Refuse a job that selects by a column that names single patients; its own words may be disclosed.

    Raises:
        JobError: naming the settings and the columns.
    """
    named = {
        column: settings
        for column, settings in selecting_columns(data, intersections).items()
        if identifying(column)
    }
    if named:
        asked = "; ".join(f"{', '.join(settings)} by {column}" for column, settings in named.items())
        raise public(
            JobError(
                f"the job selects pictures by a column that names single pictures, lesions or patients "
                f"({asked}), which no hospital does for a coordinator. Remove it from the job"
            )
        )
