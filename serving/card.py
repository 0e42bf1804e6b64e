"""The card of a model, rendered from the bundles of its release: nothing is said that they do not say."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from registry.bundle.schema import BundleManifest
from registry.bundle.scores import SCORE_BINS
from registry.gates import figures_by_subgroup
from serving.live import LoadedRelease
from serving.predictor import LoadedVersion
from serving.schemas import Card

FIGURES = ("accuracy", "balanced_accuracy", "auroc", "ece")


def card(loaded: LoadedRelease, alias: str) -> Card:
    """The card of a release: the global version first."""
    return Card(
        name=loaded.release.model,
        release=loaded.release.id,
        alias=alias,
        versions=[version_card(version) for version in loaded.versions.values()],
    )


def version_card(loaded: LoadedVersion) -> dict[str, Any]:
    """What a version's bundle says about it."""
    manifest = loaded.manifest
    said = manifest.model_dump(mode="json")
    # A bundle's figures may be in any form; those in another than ours are not shown.
    fairness = manifest.metrics.get("fairness")
    return {
        "version": loaded.version.number,
        "digest": loaded.version.digest,
        "registered": loaded.version.created.isoformat(),
        "subgroup": said["subgroup"],
        "labels": said["labels"],
        "picture": said["picture"],
        "fairness": fairness if isinstance(fairness, Mapping) else None,
        "by_subgroup": {
            name: row for name, row in figures_by_subgroup(manifest).items() if isinstance(row, Mapping)
        },
        "metrics": overall(manifest),
        "calibration": {
            **{key: said[key] for key in ("temperature", "conformal", "abstention")},
            "confidence_threshold": manifest.abstention.threshold_bin / SCORE_BINS,
        },
        "lineage": said["lineage"],
    }


def overall(manifest: BundleManifest) -> dict[str, Any]:
    """The test figures over all pictures the version was tested on."""
    skipped = ("fairness", "by_subgroup", "by_class", "absent")
    return {name: value for name, value in manifest.metrics.items() if name not in skipped}


def card_page(shown: Card) -> str:
    """The card as a page that needs nothing from elsewhere."""
    return str(pages().get_template("card.html").render(card=shown, figures=FIGURES))


@cache
def pages() -> Environment:
    """The service's page templates; whatever is put into one is escaped."""
    environment = Environment(
        loader=PackageLoader("serving", "pages"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["figure"] = figure
    environment.filters["interval"] = interval
    return environment


def interval(row: Mapping[str, Any], name: str) -> str:
    """The two ends of a figure's interval; empty where it has none."""
    intervals = row.get("intervals")
    ends = intervals.get(name) if isinstance(intervals, Mapping) else None
    if not isinstance(ends, Sequence) or len(ends) != 2:
        return ""
    return f"({figure(ends[0])} to {figure(ends[1])})"


def figure(value: object) -> str:
    """A number to three places, and a dash where there is none."""
    return f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)
