"""`dermfed-registry compare`, `promote`, `rollback`, `stop`, `withdraw`, `canary`, and tags and notes.

`dermfed-registry tag`, `untag`, `note` and `find`: what people say of versions, and finding them by it.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from registry.cli.common import (
    REFUSED,
    AsJson,
    AsPromoter,
    Expect,
    Key,
    Model,
    Named,
    NeededReason,
    Number,
    Numbers,
    Reason,
    To,
    Without,
    answer,
    as_data,
    named_or_without,
    open_registry,
    open_signing,
)
from registry.cli.gates import refused_data
from registry.errors import AliasMoved, GateRefusal
from registry.records import PRODUCTION, SEARCHED, moment
from registry.views.changes import comparison_text
from registry.views.records import canary_line, event_lines, release_line
from registry.views.tables import columns, printable

if TYPE_CHECKING:
    from registry.records import Canary
    from registry.releases.rollout import Share

END_EXAMPLES = ("demo --reason 'seen enough'", "demo --alias staging --reason 'too many referrals' --json")


def canary_end(
    context: typer.Context,
    model: Model,
    reason: NeededReason,
    alias: Annotated[
        str, typer.Option(metavar="ALIAS", help=f"Beside which alias; {PRODUCTION} by default.")
    ] = PRODUCTION,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """End the canary beside an alias: what the alias points to answers everybody again.

    Services follow within two seconds. Gates are not asked.
    """
    with open_signing(context, key) as registry:
        event = registry.end_canary(model, alias=alias, reason=reason)
    answer({"event": as_data(event)}, event_lines(event), as_json)


def canary_data(canary: "Canary") -> dict[str, Any]:
    """A canary in JSON, without the key by which requests are chosen."""
    return {
        "alias": canary.alias,
        "release": as_data(canary.release),
        "beside": canary.beside,
        "share": canary.share,
        "subgroup": canary.subgroup,
        "mirror": canary.mirror,
        "event": canary.event,
        "since": moment(canary.since),
        "actor": canary.actor,
        "reason": canary.reason,
    }


def share_of(share: float, subgroup: str | None, mirror: bool) -> "Share":
    """Whose requests a canary is to answer.

    Raises:
        InvalidName: the share is none.
    """
    from registry.releases.rollout import Share

    return Share(share, subgroup, mirror)


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
    answer(as_data(found), comparison_text(found), as_json)
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
    mirror: Annotated[
        bool,
        typer.Option("--mirror", help="With --share: its answers are only compared; callers never see them."),
    ] = False,
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
    until it is promoted in full, the alias moves, or `canary end`. With --mirror too it only looks on: what
    it would have answered is compared, and shown to nobody but operators. The gates are the same. Again with
    another share changes that.
    """
    if share is None and (whose is not None or mirror):
        raise typer.BadParameter("--for and --mirror are of a canary; name its --share too")
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
                share=None if share is None else share_of(share, whose, mirror),
                expect=expect,
            )
        except (AliasMoved, GateRefusal) as refusal:
            told = {} if refusal.report is None else refused_data(refusal.report)
            if refusal.comparison is not None:
                told["comparison"] = as_data(refusal.comparison)
                text = comparison_text(refusal.comparison, refusals=False)
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
    text = comparison_text(done.comparison)
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


STOP_EXAMPLES = ("demo --alias production --reason 'complaints from the ward'",)
WITHDRAW_EXAMPLES = (
    "demo 5 --reason 'misses melanoma on type VI'",
    "demo 4 5 --reason 'trained on wrong labels' --json",
)


def stop(
    context: typer.Context,
    model: Model,
    alias: Annotated[str, typer.Option(metavar="ALIAS", help="The alias that is to point to nothing.")],
    reason: NeededReason,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have nothing answer under an alias.

    Services say so and refuse. `rollback` goes back to what ran before; `promote` begins anew, and carries
    nothing over.
    """
    with open_signing(context, key) as registry:
        event = registry.stop(model, alias=alias, reason=reason)
    found = {"event": None if event is None else as_data(event)}
    nothing = f"nothing to do: {alias} of {model} is stopped already"
    answer(found, nothing if event is None else event_lines(event), as_json)


def withdraw(
    context: typer.Context,
    model: Model,
    numbers: Numbers,
    reason: NeededReason,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Have harmful versions answer no more, anywhere, ever.

    Each alias whose release holds one goes back to the newest release before it that holds none, or is
    stopped where there is none; services follow within two seconds. A withdrawn version is never promoted,
    approved, gone back to, exported or imported again. There is no way back: add another version.
    """
    with open_signing(context, key) as registry:
        done = registry.withdraw(model, numbers, reason=reason)
    if done is None:
        answer({"event": None, "moved": [], "same_file": []}, "nothing to do: withdrawn already", as_json)
        return
    lines = [event_lines(event) for event in (done.event, *done.moved)]
    if not done.moved:
        lines.append("no alias points to a release that holds it")
    if done.same_file:
        others = ", ".join(f"version {number} of {name}" for name, number in done.same_file)
        have, them = ("has", "it") if len(done.same_file) == 1 else ("have", "them")
        lines.append(f"note: {others} {have} the same model.onnx; withdraw {them} too if that is what harms")
    answer(as_data(done), "\n".join(lines), as_json)


TAG_EXAMPLES = ("demo 5 reviewed", "demo 5 reviewed trial-2")
UNTAG_EXAMPLES = ("demo 5 trial-2",)
NOTE_EXAMPLES = ("demo 5 'weak on the soles of feet; see the ward\\'s list'",)
FIND_EXAMPLES = ("reviewed", "sha256:3f2a", "'soles of feet' --json")

Tags = Annotated[list[str], typer.Argument(metavar="TAG...", help="Short names, such as reviewed.")]


def tag(
    context: typer.Context, model: Model, number: Number, tags: Tags, key: Key = None, as_json: AsJson = False
) -> None:
    """Give a version tags, to find it by.

    A tag changes nothing of what answers. `list --tag` shows the versions that have one.
    """
    with open_signing(context, key) as registry:
        event = registry.tag(model, number, tags)
    found = {"event": None if event is None else as_data(event)}
    nothing = f"nothing to do: version {number} of {model} has these tags"
    answer(found, nothing if event is None else event_lines(event), as_json)


def untag(
    context: typer.Context, model: Model, number: Number, tags: Tags, key: Key = None, as_json: AsJson = False
) -> None:
    """Take tags away from a version; history keeps that it had them."""
    with open_signing(context, key) as registry:
        event = registry.untag(model, number, tags)
    answer({"event": as_data(event)}, event_lines(event), as_json)


def note(
    context: typer.Context,
    model: Model,
    number: Number,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be known of it.")],
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Write a note on a version, which `show` and history tell for ever.

    Write nothing of a patient: history is never changed.
    """
    with open_signing(context, key) as registry:
        event = registry.note(model, number, text)
    answer({"event": as_data(event)}, event_lines(event), as_json)


def find(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A part of a name, tag or note; or a digest.")],
    as_json: AsJson = False,
) -> None:
    """Find versions by names of models and subgroups, tags, notes, reasons of withdrawals, or digests.

    In any case; of digests the beginning, with or without sha256:. No bundle is opened: what is in manifests
    alone, such as recipe and clients, is not searched.
    """
    with open_registry(context) as registry:
        hits = registry.find(text)
    rows = [[one.model, str(one.number), one.subgroup, "; ".join(one.because)] for one in hits]
    told = columns(("model", "version", "subgroup", "found in"), rows) if rows else printable(f"no {text!r}")
    end = f"{len(hits)} found; searched: {', '.join(SEARCHED)}"
    answer({"searched": SEARCHED, "found": as_data(hits)}, f"{told}\n{end}", as_json)
