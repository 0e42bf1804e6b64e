"""How a run signs the figures that it measured, without knowing keys: whoever starts it hands that in."""

from collections.abc import Callable

from registry.bundle.manifest import BundleManifest, without_attestation

Attest = Callable[[BundleManifest], BundleManifest]
"""Signs the figures of a manifest, in the place of a signature that it had."""


def unsigned(manifest: BundleManifest) -> BundleManifest:
    """Signs nothing; a signature of an earlier stage, over other figures, is gone."""
    return without_attestation(manifest)
