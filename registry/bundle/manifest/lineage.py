"""Where a model comes from: its job, data, seed, parent and encoder."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from registry.bundle.frozen import Frozen

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class EncoderOrigin(Frozen):
    """What an encoder was before the run.

    Attributes:
        name: the timm model.
        source: as the job named it: a file, `package:…` or `hub:…`.
        sha256: of the file of weights.
        licence: under which they are given; None where nobody said.
    """

    name: str
    source: str
    sha256: Digest
    licence: str | None = None


class Lineage(Frozen):
    """The lineage of a model: its job, data, seed and parent.

    Attributes:
        job: digest of the resolved job.
        recipe: the recipe's name, or the job's own.
        data: the fingerprint of each client's data, by client.
        seed: the job's seed.
        parent: digest of what it began from: for a subgroup's model, of the bundle of the run's global model;
            for a global model, of the file of weights that the job named, if it named one.
        encoder: what its encoder was before the run, or each of several in their order; None for one of
            random weights, and in bundles of older versions, and then not written.
        code_version: the dermfed that made it.
        created: when, if the maker says so; left out, the digest does not depend on time.
    """

    job: Digest
    recipe: str
    data: Mapping[str, str] = Field(default_factory=dict)
    seed: int
    parent: Digest | None = None
    encoder: EncoderOrigin | tuple[EncoderOrigin, ...] | None = None
    code_version: str
    created: str | None = None
