"""What every gate is: a frozen config with a name, that can say what it means and judge a case."""

from abc import abstractmethod
from typing import ClassVar

from pydantic import ConfigDict

from registry.bundle.frozen import Frozen
from registry.gate_report import GateResult
from registry.gates.case import Case

ROUNDING = 1e-9  # 0.8 - 0.7 is a little over 0.1 in floating point, and yet within a limit of 0.1


class GateConfig(Frozen):
    """One gate with its limits; strict, so that `yes` or a text never becomes a limit.

    Attributes:
        name: what a gate set calls it.
        looks_at_running: whether it compares with the running release.
        looks_at_signatures: whether it asks who has signed.
        looks_at_measurers: whether it asks who has signed the figures.
        looks_at_outcomes: whether it asks what became of patients.
    """

    model_config = ConfigDict(strict=True)
    looks_at_running: ClassVar[bool] = False
    looks_at_signatures: ClassVar[bool] = False
    looks_at_measurers: ClassVar[bool] = False
    looks_at_outcomes: ClassVar[bool] = False
    name: str

    @property
    @abstractmethod
    def meaning(self) -> str:
        """What passes, in a sentence."""

    @abstractmethod
    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
