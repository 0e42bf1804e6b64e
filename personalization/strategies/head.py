"""Fine-tuning the classifier's last layer alone, on features that stay the global model's.

    min_{W, b} (1 / N) Σ_n l_ce(softmax(W f(x_n) + b), t_n)

for f the encoder, which every personal model shares (the personal layers of Arivazhagan et al. 2019, with
one layer). The encoder gets no gradient and its batch normalisations stay in evaluation mode, so that none of
its statistics move and, unless the model drops features or paths, f is the same function in training and
afterwards. Of a model of cases the fusion learns with the classifier, as it does on a frozen encoder.

Departures: the paper trains base and personal layers together from the start; here the base is the finished
global model.
"""

from typing import ClassVar, Literal

from personalization.strategies.part import PartStrategy
from training.models import Classifier
from training.models.classifier import group_names


class Head(PartStrategy):
    """The linear classifier moves."""

    takes_cases: ClassVar[bool] = True
    name: Literal["head"] = "head"

    def moves(self, network: Classifier) -> frozenset[str]:
        """Weight and bias of the last layer; of a model of cases everything behind the encoder."""
        return group_names(network, "head")
