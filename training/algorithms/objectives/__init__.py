"""Objectives: what a client minimises. The table of what a job may name.

- `base`: the interface
- `supervised`, `dp_sgd`, `fixmatch`, `fedirm`: with labels, or with few
- `rotation`, `simclr`, `byol`, `moco`, `mocov3`, `mae`, `beit`: self-supervised
- `epochs`, `momentum`: what several of them are built of
- `codebook`: visual tokens that clients learn together, for `beit`
"""

from registry.bundle.plugins import PartTable
from training.algorithms.objectives.base import LocalRound, LocalTask, Objective
from training.algorithms.objectives.beit import BEiT
from training.algorithms.objectives.byol import BYOL
from training.algorithms.objectives.dp_sgd import DPSGD
from training.algorithms.objectives.fedirm import FedIRM
from training.algorithms.objectives.fixmatch import FixMatch
from training.algorithms.objectives.mae import MAE
from training.algorithms.objectives.moco import MoCo
from training.algorithms.objectives.mocov3 import MoCoV3
from training.algorithms.objectives.rotation import Rotation
from training.algorithms.objectives.simclr import SimCLR
from training.algorithms.objectives.supervised import Supervised

OBJECTIVES: PartTable[Objective] = PartTable(
    "objective",
    Supervised,
    SimCLR,
    Rotation,
    BYOL,
    MoCo,
    MoCoV3,
    MAE,
    BEiT,
    FixMatch,
    FedIRM,
    DPSGD,
    base=Objective,
)

__all__ = ["OBJECTIVES", "LocalTask", "LocalRound", "Objective"]
