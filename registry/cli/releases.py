"""`dermfed-registry compare`, `promote` and `rollback`: what answers under an alias."""

from typing import Annotated, Any

import typer

from registry.cli.arguments import AsJson, Expect, Model, Named, Reason, To, Without, named_or_without
from registry.cli.canary import canary_data, share_of
from registry.cli.gates import refused_data
from registry.cli.open import AsPromoter, Key, open_signing
from registry.cli.output import REFUSED, answer, as_data, terminal_columns
from registry.errors import AliasMoved, GateRefusal
from registry.rendering.comparison import comparison_text
from registry.rendering.records import canary_line, event_lines, release_line

COMPARE_EXAMPLES = (
    "demo 5 --to production",
    "demo --without dark --to production",
    "demo 1 2 3 4 --to production --json",
)
PROMOTE_EXAMPLES = (
    "demo 1 2 3 4 --to production",
    "demo 5 --to production --expect 1 --reason 'retrained for type V'",
    "demo --without dark --to production --reason 'worse than the global one'",
    "demo 5 --to production --override-gates --reason 'board decision 7, until March'",
    "demo 5 --to production --share 0.05 --reason 'a canary: one in twenty'",
    "demo 5 --to production --share 0.2 --for dark",
)
ROLLBACK_EXAMPLES = (
    "demo --alias production",
    "demo --alias production --expect 7 --reason 'too many referrals'",
)


def compare(
    context: typer.Context,
    model: Model,
    to: To,
    numbers: Named = None,
    without: Without = None,
    key: AsPromoter = None,
    as_json: AsJson = False,
) -> None:
    """Show what a promotion would change, before anybody promotes.

    Of each subgroup, the darkest skin first: which version answers now and would then, the figures that
    count for a patient under both, with intervals and numbers of test pictures, and what each gate says.
    Losses are marked. Nothing is changed. Exit code 1 if a gate refuses.
    """
    named, left_out = named_or_without(numbers, without)
    with open_signing(context, key) as registry:
        found = registry.compare(model, named, to=to, without=left_out)
    answer(as_data(found), comparison_text(found, terminal=terminal_columns()), as_json)
    if found.refused:
        raise typer.Exit(REFUSED)


def promote(
    context: typer.Context,
    model: Model,
    to: To,
    numbers: Named = None,
    without: Without = None,
    reason: Reason = None,
    override_gates: Annotated[
        bool,
        typer.Option(
            "--override-gates",
            help="Promote although a gate refuses; needs --reason, and approvals of its own where the gates "
            "ask for any.",
        ),
    ] = False,
    expect: Expect = None,
    share: Annotated[
        float | None,
        typer.Option(
            metavar="F",
            help="As a canary: it answers this share of requests, such as 0.05, beside what answers now.",
        ),
    ] = None,
    whose: Annotated[
        str | None,
        typer.Option("--for", metavar="SUBGROUP", help="With --share: of requests for this subgroup alone."),
    ] = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Release versions under an alias.

    Each version takes the place of the one for the same subgroup; the others are carried over, but for those
    of subgroups named with --without, whom the global version answers from then on. All of them change at
    the same moment.
    The gates judge the whole release that results. To promote a personalized model, name its version; the
    release needs a version for everybody (global), named together with it or promoted before.

    What is promoted is what was compared: if the alias moves meanwhile, nothing is changed, the new
    comparison is shown, and the exit code is 1. After `compare`, give the release that it was made with as
    --expect.

    With --share the alias stays, and the release that results answers a share of the requests beside it:
    until it is promoted in full, the alias moves, a promise of it is broken in the field, or `canary end`.
    The gates are the same. Again with another share changes that.
    """
    if whose is not None and share is None:
        raise typer.BadParameter("--for says whose requests a canary answers; name its --share too")
    named, left_out = named_or_without(numbers, without)
    with open_signing(context, key) as registry:
        try:
            done = registry.promote_and_tell(
                model,
                named,
                to=to,
                reason=reason,
                override_gates=override_gates,
                without=left_out,
                share=None if share is None else share_of(share, whose),
                expect=expect,
            )
        except (AliasMoved, GateRefusal) as refusal:
            told = {} if refusal.report is None else refused_data(refusal.report)
            if refusal.comparison is not None:
                told["comparison"] = as_data(refusal.comparison)
                text = comparison_text(refusal.comparison, terminal=terminal_columns(), refusals=False)
                answer(told, text, as_json)
            raise
        release = registry.require_release(model, to)
        canary = registry.canaries(model).get(to)
    event = done.event
    found: dict[str, Any] = {"event": None if event is None else as_data(event), "release": as_data(release)}
    if canary is not None:
        found["canary"] = canary_data(canary)
    if event is None or done.comparison is None:
        runs = release_line(to, release) if share is None or canary is None else canary_line(to, canary)
        answer(found, f"nothing to do: {runs}", as_json)
        return
    found["comparison"] = as_data(done.comparison)
    text = comparison_text(done.comparison, terminal=terminal_columns())
    answer(found, f"{event_lines(event)}\n\n{text}", as_json)


def rollback(
    context: typer.Context,
    model: Model,
    alias: Annotated[str, typer.Option(metavar="ALIAS", help="The alias that goes back.")],
    reason: Reason = None,
    expect: Expect = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Go back to the release before.

    The alias points to the release before the one it points to; gates are not asked. Twice goes two
    releases back. What was done stays in history, and so does this. A canary beside it ends with it; to end
    that alone, `canary end`. If the alias moves meanwhile, nothing is changed and the exit code is 1.
    """
    with open_signing(context, key) as registry:
        event = registry.rollback(model, alias=alias, reason=reason, expect=expect)
    answer({"event": as_data(event)}, event_lines(event), as_json)
