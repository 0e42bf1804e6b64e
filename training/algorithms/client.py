"""A client as a stage sees it: its pictures, its state store and the process's local model."""

from dataclasses import dataclass
from dataclasses import field as made

from registry.bundle.counts.score_bins import smallest_cell
from registry.bundle.labels import UNDECLARED
from training.algorithms.client_state import StateStore
from training.algorithms.features import FeatureMemory
from training.algorithms.local_model import LocalModel
from training.algorithms.release_store import MemoryReleases, ReleaseStore
from training.data.dataset import Dataset, Examples, Split
from training.data.folds import in_folds
from training.data.subgroups import in_subgroup
from training.progress import Watch, unwatched


@dataclass(frozen=True)
class Client:
    """One client of a job.

    Attributes:
        id: its name in the job.
        seed: the job's seed.
        min_count: nothing is told of pictures of fewer patients.
        dataset: where its pictures are.
        store: where it keeps what does not travel.
        local_model: the model it trains on.
        steps: after so many batches a training ends, and nothing of it is sent or kept; None for a whole one.
        releases: the account of what it told before.
        noisy: whether what it tells gets noise, and is of one picture of each patient.
        masked: whether what it tells leaves in a sum under masks alone.
        features: what a frozen encoder made of its pictures.
        watch: told how much of a long answer is done, for whoever waits.
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
