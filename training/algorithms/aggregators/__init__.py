"""Aggregators: how the server combines the clients' models. The table of what a job may name.

- `base`: the interface, and what aggregators that weigh subgroups share
- `weighting`: FedAvg, FedEqual, FedLoss, FedExp, FedAuto
- `fair`: q-FFL, AFL, group DRO
"""

from registry.bundle.plugins import PartTable
from training.algorithms.aggregators.base import AggregationWeights, Aggregator, Report
from training.algorithms.aggregators.fair import AFL, QFFL, GroupDRO
from training.algorithms.aggregators.weighting import FedAuto, FedAvg, FedEqual, FedExp, FedLoss

AGGREGATORS: PartTable[Aggregator] = PartTable(
    "aggregator", FedAvg, FedEqual, FedLoss, FedExp, FedAuto, QFFL, AFL, GroupDRO, base=Aggregator
)

__all__ = ["AGGREGATORS", "Aggregator", "FedAvg", "AggregationWeights", "Report"]
