"""A gate set: which gates a release must pass, as YAML.

    gates:
      - {name: spread, limit: 0.1}
      - {name: approvals, people: 2}

Each gate is there once at most. What a set does not name is not asked.
"""

import json
from typing import Annotated, Any

import yaml
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import ErrorDetails

from registry.bundle.errors import PartError
from registry.bundle.frozen import Frozen
from registry.bundle.nearest import nearest
from registry.bundle.plain_text import on_one_line
from registry.bundle.plugins import PartTable
from registry.errors import GateSetInvalid
from registry.gate_report import GateResult
from registry.gates.approvals import ApprovalsGate
from registry.gates.case import Case
from registry.gates.count import CountGate
from registry.gates.coverage import CoverageGate
from registry.gates.field import FieldGate
from registry.gates.gate import GateConfig
from registry.gates.measured_by import MeasuredByGate
from registry.gates.no_worse import NoWorseGate
from registry.gates.not_judged import held_to
from registry.gates.parity import ParityGate
from registry.gates.required_subgroups import RequiredSubgroupsGate, TonesGate
from registry.gates.risk import RiskGate
from registry.gates.shown_sensitivity import ShownSensitivityGate
from registry.gates.signature import SignatureGate
from registry.gates.spread import SpreadGate
from registry.gates.threshold import (
    AnsweredGate,
    CalibrationGate,
    WorstBalancedAccuracyGate,
    WorstMalignantSensitivityGate,
)
from registry.strict_yaml import YamlError, load_yaml

GATES: PartTable[GateConfig] = PartTable(
    "gate",
    SpreadGate,
    WorstBalancedAccuracyGate,
    WorstMalignantSensitivityGate,
    ShownSensitivityGate,
    RequiredSubgroupsGate,
    TonesGate,
    CalibrationGate,
    CoverageGate,
    AnsweredGate,
    RiskGate,
    CountGate,
    NoWorseGate,
    ParityGate,
    FieldGate,
    SignatureGate,
    MeasuredByGate,
    ApprovalsGate,
    base=GateConfig,
)

EXAMPLE = "`gates: [{name: spread, limit: 0.1}]`"


class GateSet(Frozen):
    """The gates that a release must pass, in the order in which they are told.

    Attributes:
        gates: the gates.
        must_apply: those of them that refuse where they would not apply.
    """

    gates: tuple[Annotated[GateConfig, GATES], ...] = Field(min_length=1)
    must_apply: tuple[str, ...] = ()

    @property
    def looks_at_running(self) -> bool:
        """Whether any gate looks at the running release."""
        return any(gate.looks_at_running for gate in self.gates)

    @property
    def looks_at_signatures(self) -> bool:
        """Whether any gate asks who has signed."""
        return any(gate.looks_at_signatures for gate in self.gates)

    @property
    def looks_at_measurers(self) -> bool:
        """Whether any gate asks who has signed the figures."""
        return any(gate.looks_at_measurers for gate in self.gates)

    @property
    def looks_at_outcomes(self) -> bool:
        """Whether any gate asks what became of patients."""
        return any(gate.looks_at_outcomes for gate in self.gates)

    def judge(self, case: Case) -> tuple[GateResult, ...]:
        """What each gate says of a release.

        Raises:
            GateSetInvalid: one answers in the name of another.
        """
        results = tuple(gate.judge(case) for gate in self.gates)
        for gate, result in zip(self.gates, results, strict=True):
            if result.gate != gate.name:
                raise GateSetInvalid(
                    f"gate {gate.name} answers as {result.gate}; mend it, or ask other gates"
                )
        return tuple(
            held_to(gate, result, case, must_apply=gate.name in self.must_apply)
            for gate, result in zip(self.gates, results, strict=True)
        )

    @model_serializer(mode="wrap")
    def _as_older_ones_are_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        if not self.must_apply:
            plain.pop("must_apply", None)
        return plain

    @model_validator(mode="after")
    def _must_apply_names_gates(self) -> "GateSet":
        names = [gate.name for gate in self.gates]
        if strange := [name for name in self.must_apply if name not in names]:
            raise ValueError(
                f"must_apply names {', '.join(strange)}; the gates of the set are {', '.join(names)}"
            )
        return self

    @model_validator(mode="after")
    def _each_once(self) -> "GateSet":
        names = [gate.name for gate in self.gates]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the gate {', '.join(twice)} is there twice; keep one of them")
        return self


DEFAULT = GateSet(
    gates=(
        SpreadGate(limit=0.10),
        RequiredSubgroupsGate(malignant=20),
        TonesGate(),
        ShownSensitivityGate(limit=0.75),
        NoWorseGate(
            delta=0.05, figures=("balanced_accuracy", "malignant_sensitivity", "sensitivity_at_threshold")
        ),
        AnsweredGate(limit=0.20),
        RiskGate(),
        CoverageGate(slack=0.10),
    )
)
"""What is asked where nobody has set gates (why these: docs/decisions/040-what-is-asked-by-default.md)."""


def read_gate_set(text: str, source: str = "the gate set") -> GateSet:
    """The gate set in a YAML text.

    Args:
        text: the YAML.
        source: what errors call it, such as the file's name.

    Raises:
        GateSetInvalid: it holds none.
    """
    try:
        raw = load_yaml(text)
    except YamlError as error:
        raise GateSetInvalid(f"{source} is not YAML: {error}") from error
    _refuse_unknown(raw, source)
    return gate_set_of(raw, source)


def gate_set_of(content: Any, source: str = "the gate set") -> GateSet:
    """The gate set in plain data, as YAML or a database holds it.

    Raises:
        GateSetInvalid: it holds none.
    """
    try:
        return TypeAdapter(GateSet).validate_json(json.dumps(content))
    except (TypeError, ValueError) as error:
        said = _problems(error) if isinstance(error, ValidationError) else str(error)
        raise GateSetInvalid(f"{source} holds no gate set: {said}. {_advice(error)}") from error


def gate_set_text(gates: GateSet) -> str:
    """The set as YAML, with what each gate means as a comment; `read_gate_set` reads it back."""
    lines = ["gates:"]
    for gate in gates.gates:
        entry = yaml.safe_dump(
            [gate.model_dump(mode="json")], sort_keys=False, allow_unicode=True, width=1000
        )
        lines += [f"  # {on_one_line(gate.meaning)}", *(f"  {line}" for line in entry.splitlines())]
    if gates.must_apply:
        lines += ["# these refuse where they would not apply", f"must_apply: [{', '.join(gates.must_apply)}]"]
    return "\n".join(lines)


def _refuse_unknown(raw: Any, source: str) -> None:
    if not isinstance(raw, dict):
        raise GateSetInvalid(f"{source} holds no gate set; it is a file such as {EXAMPLE}")
    for key in raw:
        if key not in (known := list(GateSet.model_fields)):
            raise GateSetInvalid(f"{source} has the key {key!r}; {nearest(str(key), known)}")
    entries = raw.get("gates")
    for number, entry in enumerate(entries if isinstance(entries, list) else [], 1):
        if not isinstance(entry, dict) or "name" not in entry:
            raise GateSetInvalid(f"{source}, gate {number}, has no name; {nearest('', GATES.names)}")
        name = entry["name"]
        if not isinstance(name, str) or name not in GATES.names:
            raise GateSetInvalid(
                f"{source}, gate {number}: there is no gate {name!r}; {nearest(str(name), GATES.names)}"
            )
        try:
            fields = list(GATES.find(name).model_fields)
        except PartError as error:
            raise GateSetInvalid(f"{source}: {error}") from error
        for key in entry:
            if key not in fields:
                raise GateSetInvalid(
                    f"{source}, gate {name}, has the key {key!r}; {nearest(str(key), fields)}"
                )


def _advice(error: Exception) -> str:
    gone = isinstance(error, ValidationError) and {"unknown_part", "unusable_part"} & {
        problem["type"] for problem in error.errors()
    }
    if gone:
        return "Install the package that offers it, or ask other gates with `dermfed-registry gates set`"
    return f"An example: {EXAMPLE}"


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False)
    deeper = [problem for problem in found if len(problem["loc"]) > 1]  # a gate that is wrong is not counted
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'the set'}: {_said(problem)}"
        for problem in deeper or found
    )


def _said(problem: ErrorDetails) -> str:
    if problem["loc"] == ("gates",) and problem["type"] == "too_short":
        return "name at least one gate"
    told = problem["msg"].removeprefix("Value error, ")
    is_plain = isinstance(problem["input"], str | int | float) and problem["type"] != "value_error"
    return f"{told}; found {problem['input']!r}" if is_plain else told
