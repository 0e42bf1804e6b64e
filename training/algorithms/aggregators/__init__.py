"""Aggregators: how the server combines the clients' models. The table of what a job may name.

- `base`: the interface, and what aggregators that weigh subgroups share
- `weighting`: FedAvg, FedEqual, FedLoss, FedExp, FedAuto; q-FFL, AFL, group DRO
"""

from registry.bundle.plugins import PartTable
from training.algorithms.aggregators.base import AggregationWeights, Aggregator, Report
from training.algorithms.aggregators.weighting import (
    AFL,
    QFFL,
    FedAuto,
    FedAvg,
    FedEqual,
    FedExp,
    FedLoss,
    GroupDRO,
)

AGGREGATORS: PartTable[Aggregator] = PartTable(
    "aggregator", FedAvg, FedEqual, FedLoss, FedExp, FedAuto, QFFL, AFL, GroupDRO, base=Aggregator
)

__all__ = ["AGGREGATORS", "Aggregator", "FedAvg", "AggregationWeights", "Report"]
