"""What `show` says of figures: who has measured and signed them, and whether their counts agree."""

from collections.abc import Sequence
from typing import Any

from registry.bundle.manifest.attestation import UNSIGNED
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.recount import recount
from registry.records import Person
from registry.rendering.table import lines_of
from registry.signing.attestation import check_attestation


def measured(manifest: BundleManifest, people: Sequence[Person]) -> str:
    """Who has measured and signed the figures, by name where the registry knows them."""
    if manifest.attestation is None:
        return UNSIGNED
    key = manifest.attestation.fingerprint
    if check_attestation(manifest) == "forged":
        return f"forged: not signed by {key}, which the bundle names; do not use this version"
    names = {one.fingerprint: one.name for one in people if one.revoked is None}
    if key in names:
        return f"measured and signed by {names[key]} ({key})"
    return f"signed by an unknown key, {key}" if names else f"measured and signed by {key}"


def recounted(manifest: BundleManifest) -> str:
    """Whether the figures follow from the counts of the bundle."""
    found = recount(manifest)
    if found.problems:
        return f"cannot be right: {'; '.join(map(str, found.problems[:1]))}"
    if not found.sources:
        return "cannot be recomputed: the bundle holds no counts"
    return f"agree with the {', '.join(found.sources)} of the bundle"


def measured_data(manifest: BundleManifest, people: Sequence[Person]) -> dict[str, Any]:
    """The same for programs, of figures that somebody has signed; nothing of others, as ever."""
    if manifest.attestation is None:
        return {}
    found = {
        "measured_by": manifest.attestation.fingerprint,
        "said": measured(manifest, people),
        "recounted_from": list(recount(manifest).sources),
    }
    return {"figures": found}


def measured_lines(manifest: BundleManifest, people: Sequence[Person]) -> str:
    """Both as lines of a version's page."""
    return lines_of([f"  figures      {measured(manifest, people)}", f"  counts       {recounted(manifest)}"])
