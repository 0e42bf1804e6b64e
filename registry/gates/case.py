"""What the gates are shown: the release that would result, the one that runs, and who stands for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from registry.bundle.manifest.schema import BundleManifest


@dataclass(frozen=True)
class Case:
    """One release to judge.

    Attributes:
        manifests: of the release that would result, the global one among them.
        running: of the release that the alias points to; empty where it points to none.
        unreadable: why the running release cannot be read; empty where it can.
        promoter: who promotes.
        approved_by: who has approved exactly this release for this alias since the alias last moved.
        signed_by: who has signed each version, by the name of its subgroup.
        approve_with: the command that approves it.
    """

    manifests: tuple[BundleManifest, ...]
    running: tuple[BundleManifest, ...] = ()
    unreadable: str = ""
    promoter: str = ""
    approved_by: tuple[str, ...] = ()
    signed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    approve_with: str = "dermfed-registry approve"
