"""Fine-tuning the normalisation layers alone (after FedBN, Li et al. 2021, section 4).

    min_{γ, β} F(γ, β; θ),    y = γ (x − μ) / sqrt(σ² + ε) + β

for γ and β of every normalisation layer and θ everything else, which stays the global model's. With
`statistics` the running μ and σ² become those of the personal pictures as well, as FedBN keeps them local.

Departures: FedBN keeps these layers apart from the first round on; here they part from the finished global
model. With several clients that train one personal model its layers are averaged among them.
"""

from typing import Literal

from personalization.strategies.part import PartStrategy
from training.algorithms.sync import BUFFERS
from training.errors import JobError
from training.models import Classifier
from training.models.classifier import FrozenBatchNormClassifier, group_names


class Norm(PartStrategy):
    """What normalisation layers learn moves.

    Attributes:
        statistics: whether their running means and variances move too.
    """

    name: Literal["norm"] = "norm"
    statistics: bool = True

    def moves(self, network: Classifier) -> frozenset[str]:
        """γ, β and, if they move, the statistics.

        Raises:
            JobError: when the model has no normalisation layer, or none that learns.
        """
        found = group_names(network, "norm")
        learned = frozenset(name for name in found if not name.endswith((*BUFFERS, "num_batches_tracked")))
        if not learned:
            raise JobError(
                "strategy norm has nothing to train: no normalisation layer of the model has weights; "
                "choose another model.name, or the strategy head, adapters or finetune"
            )
        return found if self.statistics else learned

    def view(self, network: Classifier) -> Classifier:
        """The network itself, or one whose statistics stand still."""
        return network if self.statistics else FrozenBatchNormClassifier(network)
