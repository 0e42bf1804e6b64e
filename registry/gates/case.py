"""What the gates are shown: the release that would result, the one that runs, and who stands for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from registry.bundle.manifest.schema import BundleManifest


@dataclass(frozen=True)
class InField:
    """How a version does in the field for one subgroup.

    Attributes:
        subgroup: whose outcomes.
        malignant: how many of them are malignant.
        sensitivity: the ends of its 95 % interval at the working point, corrected for who is followed up;
            None where nothing is known.
        broken: promises that were broken, each in a few words.
    """

    subgroup: str
    malignant: int
    sensitivity: tuple[float, float] | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One release to judge.

    Attributes:
        manifests: of the release that would result, the global one among them.
        running: of the release that the alias points to; empty where it points to none.
        unreadable: why the running release cannot be read; empty where it can.
        promoter: who promotes.
        promoter_key: the fingerprint of the promoter's key; empty where nobody signs the promotion.
        approvals: who has approved exactly this release for this alias since the alias last moved, and signed
            that: names by fingerprints.
        approved_unsigned: names of those who have approved it and not signed that, whoever they are.
        signed_by: who has signed each version, by the name of its subgroup, as far as it is proven.
        claimed_by: who else says to have signed it.
        measured_by: the fingerprint of the key that has signed each version's figures, by the name of its
            subgroup, where the signature holds; whose key it is, gates know.
        in_field: how each version does in the field, by the name of its subgroup, where a gate asks.
        running_in_field: the same of the release that the alias points to.
        outcomes_unread: why outcomes cannot be read; empty where they can.
        approve_with: the command that approves it.
    """

    manifests: tuple[BundleManifest, ...]
    running: tuple[BundleManifest, ...] = ()
    unreadable: str = ""
    promoter: str = ""
    promoter_key: str = ""
    approvals: Mapping[str, str] = field(default_factory=dict)
    approved_unsigned: tuple[str, ...] = ()
    signed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    claimed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measured_by: Mapping[str, str] = field(default_factory=dict)
    in_field: Mapping[str, tuple[InField, ...]] = field(default_factory=dict)
    running_in_field: Mapping[str, tuple[InField, ...]] = field(default_factory=dict)
    outcomes_unread: str = ""
    approve_with: str = "dermfed-registry approve"
