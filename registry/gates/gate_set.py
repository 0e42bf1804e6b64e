"""A gate set: which gates a release must pass, as YAML.

    gates:
      - {name: spread, limit: 0.1}
      - {name: approvals, people: 2}

Each gate is there once at most. What a set does not name is not asked.

A gate that does not apply has judged nothing; where that keeps a release out all the same.

- Where the set says that the gate must apply (`must_apply`).
- Where the running release was judged by it: whoever leaves figures, labels or promises out would else be rid
  of a gate that the release before was held to.

Which gate set let a release through, and which is in force now: told from the events alone.

A set that was loosened for one promotion and tightened again leaves a release that today's gates refuse.
History holds all of it; this puts it beside the release.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
from registry.bundle.plugins import PartTable
from registry.bundle.text import nearest, on_one_line
from registry.errors import GateSetInvalid
from registry.gate_report import OVERRIDE, GateFinding, GateResult, set_title
from registry.gates.approval import ApprovalsGate, MeasuredByGate, SignatureGate
from registry.gates.coverage import CoverageGate
from registry.gates.fairness import ParityGate, SpreadGate
from registry.gates.gate import Case, GateConfig
from registry.gates.non_inferiority import NoWorseGate
from registry.gates.outcomes import FieldGate
from registry.gates.required_subgroups import RequiredSubgroupsGate, TonesGate
from registry.gates.threshold import (
    AnsweredGate,
    CalibrationGate,
    CountGate,
    RiskGate,
    ShownSensitivityGate,
    WorstBalancedAccuracyGate,
    WorstMalignantSensitivityGate,
    narrowest_first,
)
from registry.records import Event, moment
from registry.strict_yaml import YamlError, load_yaml


def held_to(gate: GateConfig, result: GateResult, case: Case, *, must_apply: bool) -> GateResult:
    """The result of a gate, refused where it judged nothing of what has to be judged.

    Args:
        gate: the gate.
        result: what it says of the case.
        case: the release.
        must_apply: whether the set asks for it.
    """
    skipped = tuple(one for one in result.findings if one.verdict == "not applicable")
    whole = result.verdict == "not applicable"
    if result.verdict == "refused" or not (whole or skipped):
        return result
    if must_apply:
        of = ", ".join(one.subgroup for one in skipped) or "the release"
        return _refused(
            result, skipped, f"the gate set says that it must apply, and it judges nothing of {of}"
        )
    if gate.looks_at_running or not case.running:
        return result
    lost = _judged(gate, case)
    if skipped:
        lost &= {one.subgroup for one in skipped}
    if not lost:
        return result
    named = ", ".join(sorted(lost))
    why = f"of the running release this gate judges {named}, and of this one it does not"
    return _refused(result, tuple(one for one in skipped if one.subgroup in lost), why)


def _judged(gate: GateConfig, case: Case) -> set[str]:
    """The subgroups of the running release that the gate has a figure of."""
    before = gate.judge(Case(case.running))
    return {one.subgroup for one in before.findings if one.value is not None}


def _refused(result: GateResult, skipped: tuple[GateFinding, ...], why: str) -> GateResult:
    findings = tuple(
        one.model_copy(update={"verdict": "refused"}) if one in skipped else one for one in result.findings
    )
    detail = f"{why}: {result.detail}. Put into the bundle what is missing there, {OVERRIDE}"
    return result.model_copy(update={"verdict": "refused", "findings": findings, "detail": detail})


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


_Key = tuple[str, int]


@dataclass(frozen=True)
class SetBy:
    """A gate set, and who put it in force.

    Attributes:
        model, number, alias: of the set; number 0 is the one that a registry begins with.
        digest: of its content; empty where no event tells it.
        actor: who set it; empty for number 0, as the next two.
        time: when.
        reason: why.
    """

    model: str
    number: int
    alias: str = ""
    digest: str = ""
    actor: str = ""
    time: datetime | None = None
    reason: str = ""

    def __str__(self) -> str:
        title = f"gate {set_title(self.model, self.number, self.alias)}"
        if self.time is None:
            return title
        return f"{title} (set by {self.actor} at {moment(self.time)}: {self.reason})"


@dataclass(frozen=True)
class LetThrough:
    """How a release came through the gates, beside those that are asked now.

    Attributes:
        alias: under which alias it was promoted.
        release: its id.
        event: the id of the promotion.
        overridden: whether a gate refused and was overridden.
        asked: the set that it was judged by.
        in_force: the set that is asked under the alias now.
        differs: whether these two are of other content.
        sentence: all of it.
    """

    alias: str
    release: int
    event: int
    overridden: bool
    asked: SetBy
    in_force: SetBy
    differs: bool
    sentence: str


def let_through(events: Sequence[Event], release: int, alias: str) -> LetThrough | None:
    """How a release came under an alias; None where no event tells what the gates said of it.

    Args:
        events: of the model, and those that changed the gates of all models, the oldest first.
        release: the release's id.
        alias: the alias.
    """
    found = [one for one in all_let_through(events).values() if (one.release, one.alias) == (release, alias)]
    return found[-1] if found else None


def all_let_through(events: Sequence[Event]) -> dict[int, LetThrough]:
    """How each release came through the gates, by the id of the promotion; `events` as of `let_through`."""
    known = _sets(events)
    in_force: dict[tuple[str, str], SetBy] = {}
    found = {}
    for event in events:
        if event.kind != "promoted" or event.gates is None or event.alias is None or event.release is None:
            continue
        where = event.model, event.alias
        if where not in in_force:
            in_force[where] = _in_force(known, *where)
        report = event.gates
        unknown = SetBy(report.set_model, report.set_number, report.set_alias)
        asked = known.get((report.set_model, report.set_number), unknown)
        found[event.id] = _one(event, event.alias, event.release, asked, in_force[where])
    return found


def _one(event: Event, alias: str, release: int, asked: SetBy, in_force: SetBy) -> LetThrough:
    same_set = (asked.model, asked.number) == (in_force.model, in_force.number)
    differs = not same_set and (asked.digest != in_force.digest or not asked.digest)
    how = "was promoted in spite of" if event.overridden else "was let through by"
    told = f"release {release} {how} {asked}"
    sentence = f"{told}; in force now is {in_force}" if differs else f"{told}, which asks the same as today"
    return LetThrough(alias, release, event.id, event.overridden, asked, in_force, differs, sentence)


def _in_force(known: Mapping[_Key, SetBy], model: str, alias: str) -> SetBy:
    """The set that is asked of a model under an alias: of the narrowest that there is."""
    for place in narrowest_first(model, alias):
        if found := [one for one in known.values() if (one.model, one.alias) == place]:
            return max(found, key=lambda one: one.number)
    return SetBy("", 0)


def _sets(events: Sequence[Event]) -> dict[_Key, SetBy]:
    """Every set that an event tells of, in the order of setting."""
    found: dict[_Key, SetBy] = {}
    for event in events:
        if event.kind != "gates-changed" or not event.details:
            continue
        after: Mapping[str, Any] = event.details["after"]
        found[after["model"], after["number"]] = SetBy(
            after["model"],
            after["number"],
            after.get("alias", ""),
            after["digest"],
            event.actor,
            event.time,
            event.reason or "",
        )
        before: Mapping[str, Any] = event.details["before"]
        if before["number"] == 0:  # its digest is told by whoever took its place
            found.setdefault(("", 0), SetBy("", 0, "", before["digest"]))
    return found
