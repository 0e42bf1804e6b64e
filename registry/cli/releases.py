"""`dermfed-registry` on releases: gates, approvals, promotion, canaries, rollback, withdrawal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter

from registry.bundle.text import shown_name
from registry.cli.common import (
    Alias,
    Call,
    Model,
    NeededReason,
    Numbers,
    Reason,
    To,
    argument,
    as_data,
    canary_data,
    command,
    flag,
    option,
)
from registry.errors import AliasMoved, GateRefusal, GateSetInvalid
from registry.gate_report import GateReport
from registry.gates.gate_set import gate_set_text, read_gate_set
from registry.records import PRODUCTION, moment
from registry.views.changes import comparison_text, gate_table
from registry.views.records import canary_line, event_lines, release_line

if TYPE_CHECKING:
    from registry.gates import GateSet

_Named = Annotated[
    list[int] | None, argument("VERSION...", "Numbers of versions; none where --without is enough.")
]
_Without = Annotated[
    list[str] | None,
    option(
        "SUBGROUP",
        "Leave out the version of this subgroup: the global one answers; may be given again.",
        "--without",
    ),
]
_Expect = Annotated[
    int | None,
    option(
        "RELEASE",
        "Only if the alias points to this release, 0 for none; else exit code 1.",
        "--expect",
        min=0,
    ),
]
_Prevalence = Annotated[
    list[str] | None,
    option(
        "SUBGROUP=P",
        "Which share of lesions at the place is malignant, for this subgroup; may be given again.",
        "--prevalence",
    ),
]
_File = Annotated[Path, argument("FILE", "A gate set in YAML.")]
_ForModel = Annotated[
    str | None, option("MODEL", "For this model alone; else for all without their own.", "--model")
]
_ForAlias = Annotated[
    str | None, option("ALIAS", "For this alias alone; else for all without their own.", "--alias")
]


@command(
    "gates set",
    "gates.yaml --reason 'board decision 12'",
    "gates.yaml --model demo --reason 'the board wants two approvals'",
    "strict.yaml --model demo --alias production --reason 'staging may try more'",
    signs=True,
)
def gates_set(
    call: Call, file: _File, reason: NeededReason, model: _ForModel = None, alias: _ForAlias = None
) -> None:
    """Ask other gates from now on.

    The set gets the next number; earlier ones are kept. What runs is not judged again.

    Where a set that is asked now asks for approvals, another one in its place takes as many of exactly this
    change (`gates approve`). A set that asks for approvals needs as many approvers in the registry. Exit code
    1 if they are missing.
    """
    gates = _read_gates(file)
    with call.registry() as registry:
        event = registry.set_gates(gates, reason=reason, model=model, alias=alias)
        kept = registry.gates(model, alias=alias)
    found = {"event": as_data(event), "model": kept.model, "number": kept.number, "alias": kept.alias}
    call.answer(found, f"nothing to do: {kept} asks this" if event is None else event_lines(event))


@command("gates approve", "strict.yaml --model demo --alias production --key ben.key", signs=True)
def gates_approve(
    call: Call, file: _File, model: _ForModel = None, alias: _ForAlias = None, reason: Reason = None
) -> None:
    """Approve a gate set that another person will set with the same FILE, --model and --alias.

    It counts for exactly this set in place of exactly those that are asked there now, and only where it is
    signed with the key of an approver. Exit code 1 if you have approved it before.
    """
    gates = _read_gates(file)
    with call.registry() as registry:
        call.event(registry.approve_gates(gates, model=model, alias=alias, reason=reason))


@command("gates show", "", "demo", "demo --alias production", "demo --number 2 > gates.yaml", "--json")
def gates_show(
    call: Call,
    model: Annotated[str | None, argument("[MODEL]", "The gates of this model.")] = None,
    number: Annotated[int | None, option("N", "This set of the model's own.")] = None,
    alias: Annotated[str | None, option("ALIAS", "What is asked under this alias.")] = None,
) -> None:
    """Show the gates and what each means, as YAML that `gates set` reads.

    Of a model: its own set, or the one for all models where it has none; with --alias the one that is asked
    under it. Number 0 is what a registry begins with.
    """
    if number is not None and alias is not None:
        raise BadParameter("give --number or --alias, not both")
    with call.registry() as registry:
        kept = registry.gates(model, number, alias=alias)
    set_by = f", set by {shown_name(kept.actor or '')} at {moment(kept.created)}" if kept.number else ""
    gates = [{**as_data(gate), "meaning": gate.meaning} for gate in kept.gates.gates]
    call.answer({**as_data(kept), "gates": gates}, f"# {kept}{set_by}\n{gate_set_text(kept.gates)}")


@command("gates check", "demo 1 2 3 4 --to production", "demo 5 --to production --json", signs=True)
def gates_check(call: Call, model: Model, to: To, numbers: _Named = None, without: _Without = None) -> None:
    """Judge the release that a promotion would make.

    Shows each gate with each subgroup, its value and limit. Nothing is changed. Exit code 1 if refused.
    """
    _require_change(numbers, without)
    with call.registry() as registry:
        report = registry.judge(model, numbers or [], to=to, without=without or [])
    call.answer(_refused_data(report), gate_table(report), refused=report.refused)


@command(
    "approve",
    "demo 1 2 3 4 --to production",
    "demo 5 --to production --reason 'seen by the ward'",
    "demo 5 --to production --override-gates --reason 'for a month, until more are tested'",
    signs=True,
)
def approve(
    call: Call,
    model: Model,
    to: To,
    numbers: _Named = None,
    without: _Without = None,
    prevalence: _Prevalence = None,
    reason: Reason = None,
    override_gates: Annotated[
        bool, flag("Approve promoting it although gates refuse, and only that.", "--override-gates")
    ] = False,
) -> None:
    """Approve a release that another person will promote.

    It counts for exactly the bundles that would answer under the alias, those carried over included, with
    this prevalence, and until the alias moves. Only an approval that is signed with the key of an approver
    counts; your own does not where you promote. An override takes approvals of its own. Exit code 1 if you
    have approved it before.
    """
    _require_change(numbers, without)
    stated = _read_prevalence(prevalence)
    with call.registry() as registry:
        event = registry.approve(
            model,
            numbers or [],
            to=to,
            reason=reason,
            override_gates=override_gates,
            without=without or [],
            prevalence=stated,
        )
    call.event(event)


@command(
    "compare",
    "demo 5 --to production",
    "demo --without dark --to production",
    "demo 1 2 3 4 --to production --json",
    signs=True,
)
def compare(call: Call, model: Model, to: To, numbers: _Named = None, without: _Without = None) -> None:
    """Show what a promotion would change.

    Of each subgroup, the darkest skin first: which version answers now and would then, the metrics that
    count for a patient under both, with intervals and numbers of test pictures, and what each gate says.
    Losses are marked. Nothing is changed. Exit code 1 if a gate refuses.
    """
    _require_change(numbers, without)
    with call.registry() as registry:
        found = registry.compare(model, numbers or [], to=to, without=without or [])
    call.answer(as_data(found), comparison_text(found), refused=found.refused)


@command(
    "promote",
    "demo 1 2 3 4 --to production",
    "demo 5 --to production --expect 1 --reason 'retrained for type V'",
    "demo --without dark --to production --reason 'worse than the global one'",
    "demo 5 --to production --override-gates --reason 'board decision 7, until March'",
    "demo 5 --to production --share 0.05 --reason 'a canary: one in twenty'",
    "demo 5 --to production --share 0.2 --for dark",
    "demo 6 --to production --share 0.5 --mirror",
    "demo 5 --to production --prevalence dark=0.08 --prevalence light=0.12",
    signs=True,
)
def promote(
    call: Call,
    model: Model,
    to: To,
    numbers: _Named = None,
    without: _Without = None,
    prevalence: _Prevalence = None,
    reason: Reason = None,
    override_gates: Annotated[
        bool,
        flag(
            "Promote although a gate refuses; needs --reason, and approvals of its own where the gates "
            "ask for any.",
            "--override-gates",
        ),
    ] = False,
    expect: _Expect = None,
    share: Annotated[
        float | None, option("F", "As a canary: it answers this share of requests, such as 0.05.")
    ] = None,
    whose: Annotated[
        str | None, option("SUBGROUP", "With --share: of requests for this subgroup alone.", "--for")
    ] = None,
    mirror: Annotated[
        bool, flag("With --share: its answers are only compared; callers never see them.", "--mirror")
    ] = False,
) -> None:
    """Release versions under an alias.

    Each version takes the place of the one for the same subgroup; the others are carried over, except those
    of subgroups named with --without, which the global version answers from then on. All of them change at
    the same moment.
    The gates judge the whole release that results. To promote a personalized model, name its version; the
    release needs a global version, named together with it or promoted before.

    What is promoted is what was compared: if the alias moves meanwhile, nothing is changed, the new
    comparison is shown, and the exit code is 1. After `compare`, give the release that it was made with as
    --expect.

    With --share the alias stays, and the release that results answers a share of the requests: until it is
    promoted in full, the alias moves, or `canary end`. With --mirror too it answers no request: what it would
    have answered is only compared. The gates are the same. Again with another share changes that.

    With --prevalence answers have predictive values for these subgroups. It stays until another is stated.
    """
    from registry.releases.rollout import Share

    if share is None and (whose is not None or mirror):
        raise BadParameter("--for and --mirror are of a canary; name its --share too")
    if override_gates and not (reason or "").strip():
        raise BadParameter("--override-gates needs a reason, which history keeps; add --reason TEXT")
    _require_change(numbers, without)
    stated = _read_prevalence(prevalence)
    with call.registry() as registry:
        try:
            done = registry.promote_and_tell(
                model,
                numbers or [],
                to=to,
                reason=reason,
                override_gates=override_gates,
                without=without or [],
                share=None if share is None else Share(share, whose, mirror),
                expect=expect,
                prevalence=stated,
            )
        except (AliasMoved, GateRefusal) as refusal:
            if refusal.comparison is not None:
                data = {} if refusal.report is None else _refused_data(refusal.report)
                data["comparison"] = as_data(refusal.comparison)
                call.answer(data, comparison_text(refusal.comparison, refusals=False))
            raise
        release = registry.require_release(model, to)
        canary = registry.canaries(model).get(to)
    event = done.event
    found: dict[str, Any] = {"event": as_data(event), "release": as_data(release)}
    if canary is not None:
        found["canary"] = canary_data(canary)
    if event is None or done.comparison is None:
        runs = release_line(to, release) if share is None or canary is None else canary_line(to, canary)
        call.answer(found, f"nothing to do: {runs}")
        return
    found["comparison"] = as_data(done.comparison)
    call.answer(found, f"{event_lines(event)}\n\n{comparison_text(done.comparison)}")


@command(
    "canary end",
    "demo --reason 'seen enough'",
    "demo --alias staging --reason 'too many referrals' --json",
    signs=True,
)
def canary_end(call: Call, model: Model, reason: NeededReason, alias: Alias = PRODUCTION) -> None:
    """End the canary of an alias: what the alias points to answers all requests again.

    Services follow within two seconds. Gates are not asked.
    """
    with call.registry() as registry:
        call.event(registry.end_canary(model, alias=alias, reason=reason))


@command(
    "rollback",
    "demo --alias production",
    "demo --alias production --expect 7 --reason 'too many referrals'",
    signs=True,
)
def rollback(call: Call, model: Model, alias: Alias, reason: Reason = None, expect: _Expect = None) -> None:
    """Go back to the release before.

    The alias points to the release before the one it points to; gates are not asked. Twice goes two
    releases back. What was done stays in history, and so does this. A canary of it ends as well; to end
    that alone, `canary end`. With --expect it is done only if the alias points to that release.
    """
    with call.registry() as registry:
        call.event(registry.rollback(model, alias=alias, reason=reason, expect=expect))


@command("stop", "demo --alias production --reason 'complaints from the ward'", signs=True)
def stop(call: Call, model: Model, alias: Alias, reason: NeededReason) -> None:
    """Have nothing answer under an alias.

    Services say so and refuse. `rollback` goes back to what ran before; `promote` starts from nothing, and
    carries nothing over.
    """
    with call.registry() as registry:
        event = registry.stop(model, alias=alias, reason=reason)
    call.event(event, f"{alias} of {model} is stopped already")


@command(
    "withdraw",
    "demo 5 --reason 'misses melanoma on type VI'",
    "demo 4 5 --reason 'trained on wrong labels' --json",
    signs=True,
)
def withdraw(call: Call, model: Model, numbers: Numbers, reason: NeededReason) -> None:
    """Have harmful versions never answer again, anywhere.

    Each alias whose release holds one goes back to the newest release before it that holds none, or is
    stopped where there is none; services follow within two seconds. A withdrawn version is never promoted,
    approved, rolled back to, exported or imported again. This cannot be undone: add another version.
    """
    with call.registry() as registry:
        done = registry.withdraw(model, numbers, reason=reason)
    if done is None:
        call.answer({"event": None, "moved": [], "same_file": []}, "nothing to do: withdrawn already")
        return
    lines = [event_lines(event) for event in (done.event, *done.moved)]
    if not done.moved:
        lines.append("no alias points to a release that holds it")
    if done.same_file:
        others = ", ".join(f"version {number} of {name}" for name, number in done.same_file)
        lines.append(f"note: the same model.onnx is in {others}; withdraw that too if the file is harmful")
    call.answer(as_data(done), "\n".join(lines))


def _refused_data(report: GateReport) -> dict[str, Any]:
    """What a refusal tells programs: the gates that refuse with their reasons, and all that was found."""
    reasons = [{"gate": one.gate, "detail": one.detail} for one in report.results if one.verdict == "refused"]
    return {"refused": report.refused, "reasons": reasons, "gates": as_data(report)}


def _read_prevalence(texts: list[str] | None) -> dict[str, float] | None:
    """The prevalence by subgroup, from `SUBGROUP=P` each; None where none is stated."""
    found: dict[str, float] = {}
    for text in texts or ():
        name, _, share = text.rpartition("=")
        try:
            number = float(share)
        except ValueError:
            name = ""
        if not name or name in found:
            raise BadParameter(
                f"--prevalence {text!r} is not SUBGROUP=P, or names a subgroup twice; write dark=0.08"
            )
        found[name] = number
    return found or None


def _require_change(numbers: list[int] | None, without: list[str] | None) -> None:
    if not numbers and not without:
        raise BadParameter("name a VERSION, or a SUBGROUP with --without")


def _read_gates(file: Path) -> "GateSet":
    try:
        return read_gate_set(file.read_text(encoding="utf-8"), str(file))
    except UnicodeDecodeError as error:
        raise GateSetInvalid(f"{file} is not text in UTF-8 ({error}); a gate set is a YAML file") from error
