"""What a release must pass: each gate is a file with its config, a gate set is data that names gates.

- `gate`, `case`: what every gate is, and what it is shown; `registry.gate_report` is what it says.
- `figures`, `threshold`: test figures as gates read them, and the gates that hold one against a limit.
- `gate_set`: the gates that are asked together, as YAML.
- `let_through`: which set let a release through, beside the one in force now.
- `command`: `dermfed-registry gates`.

A new gate is its file, its test and its place in `gate_set.GATES`; or another distribution's, through the
entry-point group `dermfed.gates`.
"""

from registry.gates.fairness import SpreadGate
from registry.gates.gate import Case, answers_for, figures_by_subgroup, interval_of, is_share
from registry.gates.gate_set import DEFAULT, GATES, GateSet, read_gate_set

__all__ = [
    "DEFAULT",
    "GATES",
    "Case",
    "GateSet",
    "SpreadGate",
    "answers_for",
    "figures_by_subgroup",
    "interval_of",
    "is_share",
    "read_gate_set",
]
