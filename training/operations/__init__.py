"""Operations that change pictures by a level, and how each picture of a batch goes through its own."""

from training.operations.turns import Operation, apply_each, apply_in_turn

__all__ = ["Operation", "apply_each", "apply_in_turn"]
