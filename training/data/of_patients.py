"""A dataset of which some splits are open, and in those that judge each patient has one picture.

Noise on counts hides one patient. So it is the first labelled picture of each that is counted, always the
same, whatever is asked; and a question whose answer has no noise finds the splits that judge closed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from registry.bundle.cases.case_input import CaseInput
from registry.bundle.manifest.labels import Label
from training.data.dataset import Dataset, Examples, Split, case_of, traits_of
from training.errors import DataError


@dataclass(frozen=True)
class OfPatients:
    """A view of a dataset; implements `Dataset`.

    Attributes:
        dataset: all pictures.
        open: the splits that may be looked at.
    """

    dataset: Dataset
    open: tuple[Split, ...]

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

    def examples(self, client: str, split: Split) -> Examples:
        """All training pictures, and of another split the first labelled picture of each patient.

        Raises:
            DataError: the split is not open to this question.
        """
        if split not in self.open:
            raise DataError(
                f"a question about {split} pictures of {client} was refused: its answer would leave without "
                "noise, and the job has privacy.counts.epsilon; leave that out, or the stage that asks"
            )
        examples = self.dataset.examples(client, split)
        if split == "train":
            return examples
        labelled = examples.where(examples.labels >= 0)
        first = np.zeros(len(labelled), dtype=np.bool_)
        first[np.unique(labelled.people, return_index=True)[1]] = True
        return labelled.where(first)
