"""A dataset of which some splits are open, and in those that judge each patient has one picture.

Noise on counts hides one patient. So it is the first labelled picture of each that is counted, always the
same, whatever is asked; and a question whose answer has no noise finds the splits that judge closed.
"""

from dataclasses import dataclass

import numpy as np

from training.data.dataset import Examples, Split
from training.data.view import DatasetView
from training.errors import DataError


@dataclass(frozen=True)
class OfPatients(DatasetView):
    """A dataset of which some splits are open.

    Attributes:
        open: the splits that may be looked at.
    """

    open: tuple[Split, ...]

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
