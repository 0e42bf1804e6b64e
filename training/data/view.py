"""A view of a dataset: everything is the dataset's own, but a client's examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from registry.bundle.cases import CaseInput
from registry.bundle.labels import Label
from training.data.dataset import Dataset, case_of, traits_of


@dataclass(frozen=True)
class DatasetView:
    """What every view of a dataset has; with `examples`, it implements `Dataset`.

    Attributes:
        dataset: what is looked at.
    """

    dataset: Dataset

    @property
    def labels(self) -> Sequence[Label]:
        """Those of the dataset."""
        return self.dataset.labels

    @property
    def subgroups(self) -> Sequence[str]:
        """Those of the dataset."""
        return self.dataset.subgroups

    @property
    def clients(self) -> Sequence[str]:
        """Those of the dataset."""
        return self.dataset.clients

    @property
    def unseen(self) -> Sequence[str]:
        """Those of the dataset."""
        return self.dataset.unseen

    @property
    def communities(self) -> Mapping[str, Sequence[str]]:
        """Those of the dataset."""
        return self.dataset.communities

    @property
    def fingerprint(self) -> str:
        """That of the dataset."""
        return self.dataset.fingerprint

    @property
    def traits(self) -> Mapping[str, Sequence[str]]:
        """Those of the dataset."""
        return traits_of(self.dataset)

    @property
    def case(self) -> CaseInput | None:
        """That of the dataset."""
        return case_of(self.dataset)
