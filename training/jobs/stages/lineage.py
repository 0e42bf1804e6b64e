"""The lineage of a run's models: the weights that each began from, written into its bundle.

A subgroup's model began from the run's global model: its `parent` is the digest of the global model's bundle.
That digest covers the calibrated graph and the thresholds, so it is set once nothing in the global bundle
changes any more; a stage that changes bundles sets it again. The global model's `parent` is the digest of the
weights that the job began with, where it named a file.
"""

from collections.abc import Mapping
from dataclasses import replace

from registry.bundle.folder import bundle_digest
from registry.bundle.manifest import EncoderOrigin, sha256
from training.errors import JobError
from training.jobs.attest import Attest, unsigned
from training.jobs.stages.base import BundleDraft
from training.messages.message import GLOBAL
from training.models import ModelConfig
from training.models.encoders.sources import find_weights


def weights_digest(model: ModelConfig) -> str | None:
    """The digest of the file of weights that a job begins with; None for weights drawn from its seed.

    Of several encoders it is that of their digests, a line each.

    Raises:
        JobError: a file is gone.
    """
    digests = [origin.sha256 for origin in encoder_origins(model)]
    if len(model.begins_with) == 1 or not digests:
        return digests[0] if digests else None
    return sha256("\n".join(digests).encode())


def encoder_origins(model: ModelConfig) -> tuple[EncoderOrigin, ...]:
    """What is written of a job's encoders; nothing of one with weights drawn from its seed.

    Raises:
        JobError: a file is gone.
    """
    found = []
    for name, weights in model.begins_with:
        source = find_weights(weights, name)
        if source is None:
            continue
        # Where a file lies is nobody else's business.
        said = source.path.name if source.weights == str(source.path) else source.weights
        try:
            digest = source.sha256
        except OSError as error:
            raise JobError(
                f"model.weights: {weights} cannot be read any more ({error.strerror}); put it back, so "
                "that the bundles can say what the model began from"
            ) from error
        found.append(EncoderOrigin(name=name, source=said, sha256=digest, licence=source.licence))
    return tuple(found)


def encoder_origin(model: ModelConfig) -> EncoderOrigin | tuple[EncoderOrigin, ...] | None:
    """As a lineage has it: one, several in their order, or None for weights drawn from the seed."""
    found = encoder_origins(model)
    return found if len(model.begins_with) > 1 else next(iter(found), None)


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
