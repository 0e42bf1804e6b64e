"""What a release must pass: each gate is a frozen config; a gate set is data that names gates.

A new gate is its class with its row in `gate_set.GATES` or `threshold.THRESHOLD_GATES`, its row in the docs
and its example in the tests; or another distribution's, through the entry-point group `dermfed.gates`.
"""

from registry.gates.fairness import SpreadGate
from registry.gates.gate import Case, figures_by_subgroup
from registry.gates.gate_set import DEFAULT, GATES, GateSet, read_gate_set

__all__ = ["DEFAULT", "GATES", "Case", "GateSet", "SpreadGate", "figures_by_subgroup", "read_gate_set"]
