"""Objectives: what a client minimises. The table of what a job may name."""

from training.objectives.base import LocalTask, LocalWork, Objective
from training.objectives.beit import BEiT
from training.objectives.byol import BYOL
from training.objectives.dp_sgd import DPSGD
from training.objectives.fedirm import FedIRM
from training.objectives.fixmatch import FixMatch
from training.objectives.mae import MAE
from training.objectives.moco import MoCo
from training.objectives.mocov3 import MoCoV3
from training.objectives.rotation import Rotation
from training.objectives.simclr import SimCLR
from training.objectives.supervised import Supervised
from training.parts import PartTable

OBJECTIVES: PartTable[Objective] = PartTable(
    "objective", Supervised, SimCLR, Rotation, BYOL, MoCo, MoCoV3, MAE, BEiT, FixMatch, FedIRM, DPSGD
)

__all__ = ["OBJECTIVES", "LocalTask", "LocalWork", "Objective"]
