"""`dermfed-registry canary`: ends a release that answers a share."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from registry.cli.arguments import AsJson, Model, NeededReason
from registry.cli.open import Key, open_signing
from registry.cli.output import answer, as_data
from registry.records import PRODUCTION, moment
from registry.rendering.records import event_lines

if TYPE_CHECKING:
    from registry.records import Canary
    from registry.releases.canary import Share

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
        "event": canary.event,
        "since": moment(canary.since),
        "actor": canary.actor,
        "reason": canary.reason,
    }


def share_of(share: float, subgroup: str | None) -> "Share":
    """Whose requests a canary is to answer.

    Raises:
        InvalidName: the share is none.
    """
    from registry.releases.canary import Share

    return Share(share, subgroup)
