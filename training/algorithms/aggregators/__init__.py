"""Aggregators: how the server combines the clients' models. The table of what a job may name.

- `base`: the interface; `by_unit`: what aggregators that weigh subgroups share
- `fedavg`, `fedequal`, `fedauto`, `fedexp`, `fedloss`, `qffl`, `afl`, `group_dro`: one method each
"""

from registry.bundle.plugins import PartTable
from training.algorithms.aggregators.afl import AFL
from training.algorithms.aggregators.base import Aggregator, Mixture, Report
from training.algorithms.aggregators.fedauto import FedAuto
from training.algorithms.aggregators.fedavg import FedAvg
from training.algorithms.aggregators.fedequal import FedEqual
from training.algorithms.aggregators.fedexp import FedExp
from training.algorithms.aggregators.fedloss import FedLoss
from training.algorithms.aggregators.group_dro import GroupDRO
from training.algorithms.aggregators.qffl import QFFL

AGGREGATORS: PartTable[Aggregator] = PartTable(
    "aggregator", FedAvg, FedEqual, FedLoss, FedExp, FedAuto, QFFL, AFL, GroupDRO, base=Aggregator
)

__all__ = ["AGGREGATORS", "Aggregator", "FedAvg", "Mixture", "Report"]
