"""The lineage of a run's models: the weights that each began from, written into its bundle.

A subgroup's model began from the run's global model: its `parent` is the digest of the global model's bundle.
That digest covers the calibrated graph and the thresholds, so it is set once nothing in the global bundle
changes any more; a stage that changes bundles sets it again. The global model's `parent` is the digest of the
weights that the job began with, where it named a file.
"""

from collections.abc import Mapping
from dataclasses import replace

from registry.bundle.folder import bundle_digest
from registry.bundle.manifest.lineage import EncoderOrigin
from training.errors import JobError
from training.jobs.attest import Attest, unsigned
from training.jobs.stages.base import BundleDraft
from training.messages.message import GLOBAL
from training.models import ModelConfig
from training.models.encoders.source import find_weights


def weights_digest(model: ModelConfig) -> str | None:
    """The digest of the file of weights that a job begins with; None for weights drawn from its seed.

    Raises:
        JobError: the file is gone.
    """
    source = find_weights(model.weights, model.name)
    try:
        return source.sha256 if source else None
    except OSError as error:
        raise JobError(
            f"model.weights: {model.weights} cannot be read any more ({error.strerror}); put it back, so "
            "that the bundles can say what the model began from"
        ) from error


def encoder_origin(model: ModelConfig) -> EncoderOrigin | None:
    """What is written of a job's encoder; None for weights drawn from its seed."""
    source, digest = find_weights(model.weights, model.name), weights_digest(model)
    if source is None or digest is None:
        return None
    # Where a file lies is nobody else's business.
    said = source.path.name if source.weights == str(source.path) else source.weights
    return EncoderOrigin(name=model.name, source=said, sha256=digest, licence=source.licence)


def with_parents(bundles: Mapping[str, BundleDraft], attest: Attest = unsigned) -> dict[str, BundleDraft]:
    """The bundles, each subgroup's with the digest of the global one as its parent, and signed.

    Args:
        bundles: by name.
        attest: signs a manifest's figures; the global one is signed first, since its digest covers that.
    """
    everybody = _attested(bundles[GLOBAL], attest) if GLOBAL in bundles else None
    parent = None if everybody is None else bundle_digest(everybody.manifest)
    return {
        name: everybody
        if everybody is not None and name == GLOBAL
        else _attested(_with_parent(bundle, parent), attest)
        for name, bundle in bundles.items()
    }


def _with_parent(bundle: BundleDraft, parent: str | None) -> BundleDraft:
    if parent is None:
        return bundle
    lineage = bundle.manifest.lineage.model_copy(update={"parent": parent})
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"lineage": lineage}))


def _attested(bundle: BundleDraft, attest: Attest) -> BundleDraft:
    return replace(bundle, manifest=attest(bundle.manifest))
