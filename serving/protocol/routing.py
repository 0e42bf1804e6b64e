"""Routing by declared skin tone: the subgroup's own version of a release answers, or else the global one.

| declared | route | who answers |
| --- | --- | --- |
| no tone | `unknown-tone` | global |
| a tone on a scale that no subgroup of the release names | `other-scale` | global |
| a tone that belongs to no subgroup with a version | `no-model-for-subgroup` | global |
| a tone of a subgroup with a version | `declared` | the subgroup's |

A subgroup may name values of several scales: a tone declared on any of them is its own. Scales are never
converted into each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from registry.bundle.manifest.schema import GLOBAL, UNDECLARED, BundleManifest, Subgroup

Route = Literal["declared", "unknown-tone", "other-scale", "no-model-for-subgroup"]
ROUTES: tuple[Route, ...] = get_args(Route)


@dataclass(frozen=True)
class Routed:
    """The subgroup whose version answers, and by which route."""

    subgroup: str
    route: Route


def select_subgroup(subgroups: Mapping[str, Subgroup], skin_tone: str | None, scale: str) -> Routed:
    """Selects the subgroup whose version of a release answers for a declared tone.

    Args:
        subgroups: the subgroup of each version of the release, by name; `global` is always there.
        skin_tone: the declared tone, if any.
        scale: the scale it is declared on.
    """
    if skin_tone is None:
        return Routed(GLOBAL, "unknown-tone")
    own = {name: subgroup for name, subgroup in subgroups.items() if not subgroup.is_global}
    for name, subgroup in own.items():
        if subgroup.covers(skin_tone, scale):
            return Routed(name, "declared")
    if own and all(scale not in subgroup.by_scale for subgroup in own.values()):
        return Routed(GLOBAL, "other-scale")
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
