"""A gate set: which gates a release must pass, as YAML; and which set a release passed.

    gates:
      - {name: spread, limit: 0.1}
      - {name: approvals, people: 2}
    must_apply: [spread]

Each gate is there once at most. What a set does not name is not asked.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from registry.bundle.frozen import Frozen
from registry.bundle.plugins import PartTable
from registry.bundle.text import nearest, on_one_line
from registry.errors import GateSetInvalid
from registry.gate_report import OVERRIDE, GateFinding, GateResult, set_title
from registry.gates.approval import ApprovalsGate, MetricsSignatureGate, SignatureGate
from registry.gates.fairness import RequiredSubgroupsGate, SpreadGate, TonesGate
from registry.gates.gate import Case, GateConfig, Need
from registry.gates.running import NonInferiorityGate, OutcomesGate
from registry.gates.threshold import (
    THRESHOLD_GATES,
    CoverageGate,
    MinAnswerRateGate,
    MinSensitivityLowerBoundGate,
    RiskGate,
)
from registry.gates.triage import TriageGate
from registry.records import Event, moment
from registry.strict_yaml import YamlError, load_yaml

ALL_MODELS: Final = ""
"""Whose set is asked of each model without its own."""

ALL_ALIASES: Final = ""
"""Under what a set is asked that is for no alias alone."""

EXAMPLE: Final = "`gates: [{name: spread, limit: 0.1}]`"

GATES: PartTable[GateConfig] = PartTable(
    "gate",
    SpreadGate,
    RequiredSubgroupsGate,
    TonesGate,
    *THRESHOLD_GATES,
    TriageGate,
    NonInferiorityGate,
    OutcomesGate,
    SignatureGate,
    MetricsSignatureGate,
    ApprovalsGate,
    base=GateConfig,
)


class GateSet(Frozen):
    """The gates that a release must pass, in the order in which they are reported.

    Attributes:
        gates: the gates.
        must_apply: those of them that refuse where they would not apply.
    """

    gates: tuple[Annotated[GateConfig, GATES], ...] = Field(min_length=1)
    must_apply: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[Need]:
        """What any of the gates must be shown."""
        return frozenset[Need]().union(*(gate.needs for gate in self.gates))

    def judge(self, case: Case) -> tuple[GateResult, ...]:
        """Judge a release by each gate.

        Raises:
            GateSetInvalid: one answers in the name of another.
        """
        return tuple(self._judge(gate, case) for gate in self.gates)

    def _judge(self, gate: GateConfig, case: Case) -> GateResult:
        """The result of one gate, refused where it judged nothing of what must be judged.

        That is where the set says that the gate must apply, and where the running release was judged by it:
        leaving metrics, labels or guarantees out would else be a way around the gate.
        """
        result = gate.judge(case)
        if result.gate != gate.name:
            raise GateSetInvalid(f"gate {gate.name} answers as {result.gate}; fix it, or ask other gates")
        skipped = [one for one in result.findings if one.verdict == "not applicable"]
        if result.verdict == "refused" or not (skipped or result.verdict == "not applicable"):
            return result
        named = [one for one in skipped if one.subgroup]
        judged = {one.subgroup for one in result.findings if one.value is not None}
        if gate.name in self.must_apply:
            of = _named(named, judged) or "the release"
            return _refuse(
                result, named, f"the gate set says that it must apply, and it judges nothing of {of}"
            )
        if "running" in gate.needs or not case.running:
            return result
        known = [one for one in gate.judge(Case(case.running)).findings if one.value is not None]
        measured, before = {(one.subgroup, one.measure) for one in known}, {one.subgroup for one in known}
        lost = [
            one for one in named if (one.subgroup, one.measure) in measured or one.subgroup in before - judged
        ]
        if not before or (named and not lost):
            return result
        of = _named(lost, judged) or ", ".join(sorted(before))
        return _refuse(
            result, lost, f"of the running release this gate judges {of}, and of this one it does not"
        )

    @model_validator(mode="after")
    def _names_are_valid(self) -> "GateSet":
        names = [gate.name for gate in self.gates]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the gate {', '.join(twice)} is there twice; keep one of them")
        if unknown := [name for name in self.must_apply if name not in names]:
            raise ValueError(
                f"must_apply names {', '.join(unknown)}; the gates of the set are {', '.join(names)}"
            )
        return self


def _named(findings: Sequence[GateFinding], judged: Collection[str]) -> str:
    """The subgroups of some findings; where others of a subgroup were judged, what of it was not."""
    names = (
        f"{one.subgroup} ({one.measure})" if one.subgroup in judged else one.subgroup for one in findings
    )
    return ", ".join(sorted(set(names)))


def _refuse(result: GateResult, skipped: Sequence[GateFinding], why: str) -> GateResult:
    findings = tuple(
        one.model_copy(update={"verdict": "refused"}) if one in skipped else one for one in result.findings
    )
    detail = f"{why}: {result.detail}. Add to the bundle what is missing there, {OVERRIDE}"
    return result.model_copy(update={"verdict": "refused", "findings": findings, "detail": detail})


DEFAULT = GateSet(
    gates=(
        SpreadGate(limit=0.10),
        RequiredSubgroupsGate(malignant=20),
        TonesGate(),
        MinSensitivityLowerBoundGate(limit=0.75),
        NonInferiorityGate(
            delta=0.05, metrics=("balanced_accuracy", "malignant_sensitivity", "sensitivity_at_threshold")
        ),
        MinAnswerRateGate(limit=0.20),
        RiskGate(),
        CoverageGate(slack=0.10),
        TriageGate(),
    )
)
"""What is asked where no gates are set (why these: docs/decisions/040-what-is-asked-by-default.md)."""


def read_gate_set(text: str, source: str = "the gate set") -> GateSet:
    """Read a gate set from YAML.

    Args:
        text: the YAML.
        source: what errors call it, such as the file's name.

    Raises:
        GateSetInvalid: it is not a valid one.
    """
    try:
        content = load_yaml(text)
    except YamlError as error:
        raise GateSetInvalid(f"{source} cannot be read as YAML: {error}") from error
    return gate_set_of(content, source)


def gate_set_of(content: Any, source: str = "the gate set") -> GateSet:
    """Read a gate set from plain data, as YAML or a database holds it.

    Raises:
        GateSetInvalid: it is not a valid one.
    """
    if not isinstance(content, dict):
        raise GateSetInvalid(f"{source} is no gate set; it is a mapping such as {EXAMPLE}")
    try:
        return TypeAdapter(GateSet).validate_json(json.dumps(content))
    except ValidationError as error:
        found = error.errors(include_url=False)
        deeper = [one for one in found if len(one["loc"]) > 1]  # a gate that is wrong is not counted
        problems = "; ".join(_problem(one) for one in deeper or found)
        advice = f"An example: {EXAMPLE}"
        if {"unknown_part", "unusable_part"} & {one["type"] for one in found}:
            advice = (
                "Install the package that offers it, or ask other gates with `dermfed-registry gates set`"
            )
        raise GateSetInvalid(f"{source} is no gate set: {problems}. {advice}") from error
    except (TypeError, ValueError) as error:
        raise GateSetInvalid(f"{source} is no gate set: {error}. An example: {EXAMPLE}") from error


def _problem(problem: ErrorDetails) -> str:
    """One thing that is wrong, with the nearest valid key where a key is unknown."""
    where, kind = problem["loc"], problem["type"]
    path = ".".join(map(str, where)) or "the set"
    if kind == "extra_forbidden":
        known = list((GATES.find(str(where[2])) if len(where) > 2 else GateSet).model_fields)
        return f"{path}: unknown key; {nearest(str(where[-1]), known)}"
    if where == ("gates",) and kind == "too_short":
        return f"{path}: name at least one gate"
    message = problem["msg"].removeprefix("Value error, ")
    is_plain = isinstance(problem["input"], str | int | float) and kind != "value_error"
    found = f"; found {problem['input']!r}" if is_plain else ""
    return f"{path}: {message}{found}"


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


def narrowest_first(model: str, alias: str) -> Sequence[tuple[str, str]]:
    """Whose sets, under which alias, are looked for: the first of these that there is counts."""
    pairs = [(whose, under) for whose in (model, ALL_MODELS) for under in (alias, ALL_ALIASES)]
    return list(dict.fromkeys(pairs))


@dataclass(frozen=True)
class SetBy:
    """A gate set, and who put it in force.

    Attributes:
        model, number, alias: of the set; number 0 is the one that a registry begins with.
        digest: of its content; empty where no event holds it.
        actor, time, reason: who set it, when and why; empty for number 0.
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
    """Which gate set a release passed, and which is in force now.

    A set that was loosened for one promotion and tightened again leaves a release that today's gates refuse.

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
    """How a release passed the gates under an alias; None where no event holds what the gates said of it.

    Args:
        events: of the model, and those that changed the gates of all models, the oldest first.
        release: the release's id.
        alias: the alias.
    """
    found = [one for one in all_let_through(events).values() if (one.release, one.alias) == (release, alias)]
    return found[-1] if found else None


def all_let_through(events: Sequence[Event]) -> dict[int, LetThrough]:
    """How each release passed the gates, by the id of the promotion; `events` as of `let_through`."""
    known = _sets(events)
    found = {}
    for event in events:
        if event.kind != "promoted" or event.gates is None or event.alias is None or event.release is None:
            continue
        report = event.gates
        unknown = SetBy(report.set_model, report.set_number, report.set_alias)
        asked = known.get((report.set_model, report.set_number), unknown)
        in_force = _in_force(known, event.model, event.alias)
        same_set = (asked.model, asked.number) == (in_force.model, in_force.number)
        differs = not same_set and (asked.digest != in_force.digest or not asked.digest)
        how = "was promoted in spite of" if event.overridden else "was let through by"
        today = f"; in force now is {in_force}" if differs else ", which asks the same as today"
        sentence = f"release {event.release} {how} {asked}{today}"
        found[event.id] = LetThrough(
            event.alias, event.release, event.id, event.overridden, asked, in_force, differs, sentence
        )
    return found


def _in_force(known: Mapping[tuple[str, int], SetBy], model: str, alias: str) -> SetBy:
    """The set that is asked of a model under an alias: of the narrowest that there is."""
    for place in narrowest_first(model, alias):
        if found := [one for one in known.values() if (one.model, one.alias) == place]:
            return max(found, key=lambda one: one.number)
    return SetBy("", 0)


def _sets(events: Sequence[Event]) -> dict[tuple[str, int], SetBy]:
    """Every set that an event holds, in the order of setting."""
    found: dict[tuple[str, int], SetBy] = {}
    for event in events:
        if event.kind != "gates-changed" or not event.details:
            continue
        after: Mapping[str, Any] = event.details["after"]
        model, number, alias = after["model"], after["number"], after.get("alias", "")
        set_by = event.actor, event.time, event.reason or ""
        found[model, number] = SetBy(model, number, alias, after["digest"], *set_by)
        before: Mapping[str, Any] = event.details["before"]
        if before["number"] == 0:  # only the event that replaced it holds its digest
            found.setdefault(("", 0), SetBy("", 0, "", before["digest"]))
    return found
