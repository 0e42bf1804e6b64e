"""Routing by declared skin tone: the subgroup's own version of a release answers, or else the global one.

| declared | route | who answers |
| --- | --- | --- |
| no tone | `unknown-tone` | global |
| a tone of which the calibration had too few patients, or none | `unknown-tone` | global |
| a tone on a scale that no subgroup of the release names | `other-scale` | global |
| another tone that belongs to no subgroup with a version | `no-model-for-subgroup` | global |
| a tone of a subgroup with a version | `declared` | the subgroup's |

A subgroup may name values of several scales: a tone declared on any of them is its own. Scales are never
converted into each other.

A subgroup's version answers for the tones that its calibration has seen, by the bundle's numbers of patients
(`patients_by_tone`): for another tone of its own it would promise what nobody measured. Its route has the
reason `tone-not-represented`; the reasons of all other routes are called as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from registry.bundle.labels import GLOBAL, UNDECLARED, Subgroup
from registry.bundle.manifest import BundleManifest

Route = Literal["declared", "unknown-tone", "other-scale", "no-model-for-subgroup"]
ROUTES: tuple[Route, ...] = get_args(Route)

RouteReason = Literal[
    "declared", "unknown-tone", "other-scale", "no-model-for-subgroup", "tone-not-represented"
]
ROUTE_REASONS: tuple[RouteReason, ...] = get_args(RouteReason)
"""Why a route was taken: the code of a diagnosis's last reason."""


@dataclass(frozen=True)
class Routed:
    """The subgroup whose version answers, and why."""

    subgroup: str
    reason: RouteReason

    @property
    def route(self) -> Route:
        """By which route."""
        return route_of(self.reason)


def route_of(reason: RouteReason) -> Route:
    """The route that has this reason."""
    return "unknown-tone" if reason == "tone-not-represented" else reason


def select_subgroup(versions: Mapping[str, BundleManifest], skin_tone: str | None, scale: str) -> Routed:
    """Selects the subgroup whose version of a release answers for a declared tone.

    Args:
        versions: the manifest of each version of the release, by its subgroup; `global` is always there.
        skin_tone: the declared tone, if any.
        scale: the scale it is declared on.
    """
    if skin_tone is None:
        return Routed(GLOBAL, "unknown-tone")
    own = {name: one for name, one in versions.items() if not one.subgroup.is_global}
    for name, manifest in own.items():
        if manifest.subgroup.covers(skin_tone, scale):
            represented = manifest.represents(manifest.subgroup, skin_tone, scale)
            return Routed(name, "declared") if represented else Routed(GLOBAL, "tone-not-represented")
    everybody = versions[GLOBAL]
    named = (*everybody.named_subgroups, *(manifest.subgroup for manifest in own.values()))
    if not any(subgroup.by_scale for subgroup in named):
        return Routed(GLOBAL, "no-model-for-subgroup")
    if all(scale not in subgroup.by_scale for subgroup in named):
        return Routed(GLOBAL, "other-scale")
    counted = everybody.patients_by_tone
    if counted is None or counted.count("calibration", skin_tone, scale) is None:
        return Routed(GLOBAL, "tone-not-represented")
    return Routed(GLOBAL, "no-model-for-subgroup")


def subgroup_of(
    versions: Mapping[str, Subgroup], everybody: BundleManifest, skin_tone: str | None, scale: str
) -> str:
    """The subgroup of a declared tone, as metrics and canaries call it: one of a closed list.

    The subgroup of a version of the release that is for this tone; else the subgroup that the model for
    everybody was tested on; else the tone itself, with its scale.
    """
    if skin_tone is None:
        return UNDECLARED
    tested = everybody.reference.by_subgroup if everybody.reference else ()
    for subgroup in (*versions.values(), *(one.subgroup for one in tested)):
        if subgroup.covers(skin_tone, scale):
            return subgroup.name
    return f"{scale} {skin_tone}"
