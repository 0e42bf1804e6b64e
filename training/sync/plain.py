"""The plain syncs: everything travels, everything but named groups, or nothing."""

from typing import Literal

from training.models.classifier import Classifier
from training.models.groups import float_state, group_names
from training.sync.base import Sync


class SyncAll(Sync):
    """Everything travels."""

    name: Literal["all"] = "all"

    def stays(self, model: Classifier) -> frozenset[str]:
        """Nothing stays."""
        return frozenset()


class SyncExcept(Sync):
    """Everything travels but the named groups of parameters, e.g. `norm` as in FedBN (Li et al. 2021)."""

    name: Literal["except"] = "except"
    groups: tuple[str, ...]

    def stays(self, model: Classifier) -> frozenset[str]:
        """The names in the groups that stay."""
        return frozenset().union(*(group_names(model, group) for group in self.groups))


class SyncNone(Sync):
    """Nothing travels: every client trains a model of its own ("Local CL", Wu et al. 2022, section V-A)."""

    name: Literal["none"] = "none"

    def stays(self, model: Classifier) -> frozenset[str]:
        """Everything stays."""
        return frozenset(float_state(model))
