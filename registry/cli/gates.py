"""`dermfed-registry gates` and `approve`: what a release must pass, as data, and who stands for it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from registry.bundle.text import shown_name
from registry.cli.common import (
    REFUSED,
    AsJson,
    AsPromoter,
    Key,
    Model,
    Named,
    NeededReason,
    Reason,
    To,
    Without,
    answer,
    as_data,
    named_or_without,
    open_registry,
    open_signing,
)
from registry.errors import GateSetInvalid
from registry.gate_report import GateReport
from registry.gates.gate_set import gate_set_text, read_gate_set
from registry.records import moment
from registry.views.changes import gate_table
from registry.views.records import event_lines

SET_EXAMPLES = (
    "gates.yaml --reason 'board decision 12'",
    "gates.yaml --model demo --reason 'the board wants two approvals'",
    "strict.yaml --model demo --alias production --reason 'staging may try more'",
)
GATES_APPROVE_EXAMPLES = ("strict.yaml --model demo --alias production --key ben.key",)
GATES_SHOW_EXAMPLES = ("", "demo", "demo --alias production", "demo --number 2 > gates.yaml", "--json")
CHECK_EXAMPLES = ("demo 1 2 3 4 --to production", "demo 5 --to production --json")
APPROVE_EXAMPLES = (
    "demo 1 2 3 4 --to production",
    "demo 5 --to production --reason 'seen by the ward'",
    "demo 5 --to production --override-gates --reason 'for a month, until more are tested'",
)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A gate set in YAML.")]
_Model = Annotated[
    str | None, typer.Option(metavar="MODEL", help="For this model alone; else for all without their own.")
]
_Alias = Annotated[
    str | None, typer.Option(metavar="ALIAS", help="For this alias alone; else for all without their own.")
]


def gates_set(
    context: typer.Context,
    file: _File,
    reason: NeededReason,
    model: _Model = None,
    alias: _Alias = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Ask other gates from now on.

    The set gets the next number; earlier ones are kept. What runs is not judged anew.

    Where a set that is asked now asks for approvals, another one in its place takes as many of exactly this
    change (`gates approve`). A set that asks for approvals needs as many approvers in the registry. Exit code
    1 if they are missing.
    """
    gates = read_gate_set(_text(file), str(file))
    with open_signing(context, key) as registry:
        event = registry.set_gates(gates, reason=reason, model=model, alias=alias)
        kept = registry.gates(model, alias=alias)
    found = {"event": None if event is None else as_data(event), "model": kept.model, "number": kept.number}
    found["alias"] = kept.alias
    answer(found, f"nothing to do: {kept} asks this" if event is None else event_lines(event), as_json)


def gates_approve(
    context: typer.Context,
    file: _File,
    model: _Model = None,
    alias: _Alias = None,
    reason: Reason = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Approve a gate set that somebody else will set with the same FILE, --model and --alias.

    It counts for exactly this set in place of exactly those that are asked there now, and only where it is
    signed with the key of an approver. Exit code 1 if you have approved it before.
    """
    gates = read_gate_set(_text(file), str(file))
    with open_signing(context, key) as registry:
        event = registry.approve_gates(gates, model=model, alias=alias, reason=reason)
    answer({"event": as_data(event)}, event_lines(event), as_json)


def gates_show(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="The gates of this model.")] = None,
    number: Annotated[int | None, typer.Option(metavar="N", help="This set of the model's own.")] = None,
    alias: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="What is asked under this alias.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the gates and what each means, as YAML that `gates set` reads.

    Of a model: its own set, or the one for all models where it has none; with --alias the one that is asked
    under it. Number 0 is what a registry begins with.
    """
    if number is not None and alias is not None:
        raise typer.BadParameter("give --number or --alias, not both")
    with open_registry(context) as registry:
        kept = registry.gates(model, number, alias=alias)
    set_by = f", set by {shown_name(kept.actor or '')} at {moment(kept.created)}" if kept.number else ""
    found = {
        **as_data(kept),
        "gates": [{**as_data(gate), "meaning": gate.meaning} for gate in kept.gates.gates],
    }
    answer(found, f"# {kept}{set_by}\n{gate_set_text(kept.gates)}", as_json)


def gates_check(
    context: typer.Context,
    model: Model,
    to: To,
    numbers: Named = None,
    without: Without = None,
    key: AsPromoter = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a promotion would be told.

    Each gate with each subgroup, its figure and limit. Nothing is changed. Exit code 1 if refused.
    """
    named, left_out = named_or_without(numbers, without)
    with open_signing(context, key) as registry:
        report = registry.judge(model, named, to=to, without=left_out)
    answer(refused_data(report), gate_table(report), as_json)
    if report.refused:
        raise typer.Exit(REFUSED)


def refused_data(report: GateReport) -> dict[str, Any]:
    """What a refusal tells programs: the gates that refuse with their reasons, and all that was found."""
    reasons = [{"gate": one.gate, "detail": one.detail} for one in report.results if one.verdict == "refused"]
    return {"refused": report.refused, "reasons": reasons, "gates": as_data(report)}


def approve(
    context: typer.Context,
    model: Model,
    to: To,
    numbers: Named = None,
    without: Without = None,
    reason: Reason = None,
    override_gates: Annotated[
        bool,
        typer.Option("--override-gates", help="Approve promoting it although gates refuse, and only that."),
    ] = False,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Stand for a release that somebody else will promote.

    It counts for exactly the bundles that would answer under the alias, those carried over included, and
    until the alias moves. Only an approval that is signed with the key of an approver counts; your own does
    not where you promote. An override takes approvals of its own. Exit code 1 if you have approved it before.
    """
    named, left_out = named_or_without(numbers, without)
    with open_signing(context, key) as registry:
        event = registry.approve(
            model, named, to=to, reason=reason, override_gates=override_gates, without=left_out
        )
    answer({"event": as_data(event)}, event_lines(event), as_json)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GateSetInvalid(f"{file} is not text in UTF-8 ({error}); a gate set is a YAML file") from error
