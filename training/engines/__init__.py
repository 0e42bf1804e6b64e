"""Engines move messages and run clients; they know no algorithm."""

from training.engines.base import Engine
from training.engines.in_process import InProcessEngine

__all__ = ["Engine", "InProcessEngine"]
