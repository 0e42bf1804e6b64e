"""A data set cut down to a few pictures of each split, to try a step on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from registry.bundle.cases.case_input import CaseInput
from registry.bundle.manifest.labels import Label
from training.data.dataset import Dataset, Examples, Split, case_of, traits_of


@dataclass
class FewPictures:
    """A few pictures of each split of a data set, those with labels before others; a `Dataset`.

    Attributes:
        whole: the data set.
        most: how many pictures of a split; may be changed between questions.
        start: from which on; another question about others finds no features of theirs made before.
    """

    whole: Dataset
    most: int
    start: int = 0

    def examples(self, client: str, split: Split) -> Examples:
        """At most so many pictures of one split of one client."""
        examples = self.whole.examples(client, split)
        order = np.argsort(examples.labels < 0, kind="stable")
        labelled = int((examples.labels >= 0).sum()) or len(order)
        order = np.concatenate([np.roll(order[:labelled], -self.start), order[labelled:]])[: self.most]
        keep = np.zeros(len(examples), dtype=np.bool_)
        keep[order] = True
        return examples.where(keep)

    @property
    def labels(self) -> Sequence[Label]:
        """As of the whole."""
        return self.whole.labels

    @property
    def subgroups(self) -> Sequence[str]:
        """As of the whole."""
        return self.whole.subgroups

    @property
    def clients(self) -> Sequence[str]:
        """As of the whole."""
        return self.whole.clients

    @property
    def unseen(self) -> Sequence[str]:
        """As of the whole."""
        return self.whole.unseen

    @property
    def communities(self) -> Mapping[str, Sequence[str]]:
        """As of the whole."""
        return self.whole.communities

    @property
    def fingerprint(self) -> str:
        """As of the whole."""
        return self.whole.fingerprint

    @property
    def case(self) -> CaseInput | None:
        """As of the whole."""
        return case_of(self.whole)

    @property
    def traits(self) -> Mapping[str, Sequence[str]]:
        """As of the whole."""
        return traits_of(self.whole)
