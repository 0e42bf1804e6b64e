"""`dermfed-registry field`: how the versions of a model do in the field, and which promises are broken."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from registry.bundle.plain_text import shown
from registry.cli.arguments import AsJson, Model
from registry.cli.open import open_outcomes, open_registry
from registry.cli.output import REFUSED, answer
from registry.environment import OUTCOMES
from registry.errors import NotFound, StoreError
from registry.rendering.table import columns, lines_of

if TYPE_CHECKING:
    from registry.bundle.manifest.schema import BundleManifest
    from registry.bundle.metrics.limits import Limits
    from registry.field.report import Kept, SubgroupInField
    from registry.outcomes.store import OutcomeStore
    from registry.registry import Registry

EXAMPLES = (
    "demo",
    "demo --outcomes sqlite:////srv/dermfed/outcomes.db --json",
    "demo --counts field.json",
)
HEADER = (
    *("version", "subgroup", "answered", "outcomes", "malignant"),
    *("sensitivity", "corrected", "specificity", "corrected", "set held it"),
)
NOTE = (
    "Sensitivity and specificity are those at the working point, with 95 % intervals: first among the "
    "followed up, then corrected for who is (Begg and Greenes 1983). The correction holds where following up "
    "depends on the answer alone; where clinicians also follow up what they doubt, it accuses too much."
)


def field(
    context: typer.Context,
    model: Model,
    outcomes: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"The database of outcomes. By default {OUTCOMES}."),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            "--counts", metavar="FILE", help="Write the counts alone, for a node that adds them up."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show figures of the field by version and subgroup, and promises that were broken.

    They are of answers that the service has kept, and of outcomes that came back. Exit code 1: a promise is
    broken. With --counts nothing is judged: the counts are written, for `dermfed-node start --field`.
    """
    from registry.field.report import field_report

    with open_outcomes(outcomes, "--outcomes", create=False) as store, open_registry(context) as registry:
        if counts is not None:
            _write_counts(store, registry, model, counts, as_json)
            return

        def manifest_of(number: int) -> "BundleManifest | None":
            try:
                return registry.manifest(registry.version(model, number))
            except (NotFound, StoreError):
                return None  # what it promised is not known any more

        found = field_report(store, model, manifest_of)
    if not found:
        raise NotFound(
            f"no answer of {model} is kept in the database of outcomes; the service keeps them where "
            f"{OUTCOMES} names a database"
        )
    alarms = [(one, kept) for one in found for kept in one.alarms]
    text = [columns(HEADER, [_row(one) for one in found]), "", NOTE]
    if alarms:
        text += ["", lines_of(_alarm(one, kept) for one, kept in alarms)]
    answer([_data(one) for one in found], "\n".join(text), as_json)
    if alarms:
        raise typer.Exit(REFUSED)


def _write_counts(store: "OutcomeStore", registry: "Registry", model: str, path: Path, as_json: bool) -> None:
    from registry.field.exporting import export_field

    def digest_of(number: int) -> str | None:
        try:
            return registry.version(model, number).digest
        except NotFound:
            return None

    found = export_field(store, model, digest_of, datetime.now(UTC).date())
    path.write_text(found.file.model_dump_json(indent=2) + "\n", encoding="utf-8")
    versions = {cell.version for cell in found.file.cells}
    text = f"{path}: {len(versions)} versions, {sum(cell.confirmed for cell in found.file.cells):,} outcomes"
    if found.left_out:
        numbers = ", ".join(map(str, found.left_out))
        text += f"\nleft out: version {numbers}, without a working point or no longer in the registry"
    data = {"file": str(path), "versions": sorted(versions), "left_out": list(found.left_out)}
    answer(data, shown(text), as_json)


def _row(one: "SubgroupInField") -> list[str]:
    of = one.figures
    return [
        f"{one.version} ({one.made_for})",
        one.subgroup,
        f"{of.answered:,}",
        f"{of.confirmed:,}",
        f"{of.malignant:,}",
        *map(_told, (of.seen_sensitivity, of.sensitivity, of.seen_specificity, of.specificity, one.coverage)),
    ]


def _told(limits: "Limits") -> str:
    ends = f"{float(limits.low):.2f} to {float(limits.high):.2f}"
    return f"unknown ({ends})" if np.isnan(limits.value) else f"{float(limits.value):.2f} ({ends})"


def _alarm(one: "SubgroupInField", kept: "Kept") -> str:
    promise = kept.promise
    return (
        f"BROKEN: version {one.version} promises {one.subgroup} a {promise.what} of {promise.least:.2f} "
        f"({promise.why}); {kept.outcomes:,} outcomes speak against it since {kept.broken_on}. Withdraw "
        "it, or go back to the release before"
    )


def _data(one: "SubgroupInField") -> dict[str, Any]:
    of = one.figures
    figures = {
        "sensitivity": {"seen": _limits(of.seen_sensitivity), "corrected": _limits(of.sensitivity)},
        "specificity": {"seen": _limits(of.seen_specificity), "corrected": _limits(of.specificity)},
        "coverage": {"seen": _limits(one.coverage)},
    }
    return {
        "version": one.version,
        "made_for": one.made_for,
        "subgroup": one.subgroup,
        "since": str(one.since),
        "answered": of.answered,
        "outcomes": of.confirmed,
        "malignant": of.malignant,
        "reported": one.reported,
        "figures": figures,
        "promises": [
            {
                "of": kept.promise.what,
                "least": kept.promise.least,
                "why": kept.promise.why,
                "outcomes": kept.outcomes,
                "evidence": kept.evidence,
                "limit": kept.limit,
                "broken_on": None if kept.broken_on is None else str(kept.broken_on),
            }
            for kept in one.kept
        ],
    }


def _limits(limits: "Limits") -> dict[str, Any]:
    value = None if np.isnan(limits.value) else float(limits.value)
    return {"value": value, "interval": [float(limits.low), float(limits.high)]}
