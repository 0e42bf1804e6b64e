"""Aggregation: how the server combines what the clients send. The table of what a job may name."""

from training.aggregators.afl import AFL
from training.aggregators.base import Aggregator, Mixture, Report
from training.aggregators.fedauto import FedAuto
from training.aggregators.fedavg import FedAvg
from training.aggregators.fedequal import FedEqual
from training.aggregators.fedexp import FedExp
from training.aggregators.fedloss import FedLoss
from training.aggregators.qffl import QFFL
from training.parts import PartTable

AGGREGATORS: PartTable[Aggregator] = PartTable(
    "aggregator", FedAvg, FedEqual, FedLoss, FedExp, FedAuto, QFFL, AFL
)

__all__ = ["AGGREGATORS", "Aggregator", "FedAvg", "Mixture", "Report"]
