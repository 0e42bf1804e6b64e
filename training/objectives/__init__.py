"""Objectives: what a client minimises. The table of what a job may name."""

from training.objectives.base import LocalTask, LocalWork, Objective
from training.objectives.rotation import Rotation
from training.objectives.simclr import SimCLR
from training.objectives.supervised import Supervised
from training.parts import PartTable

OBJECTIVES: PartTable[Objective] = PartTable("objective", Supervised, SimCLR, Rotation)

__all__ = ["OBJECTIVES", "LocalTask", "LocalWork", "Objective"]
