"""The handshake of coordinator and site: versions, protocol and job digest must agree."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from training.config import FrozenConfig
from training.engines.flare.wire import PROTOCOL
from training.errors import EngineError, tell

MUST_BE_EQUAL = ("dermfed",)  # a job's weights are these versions' work
WEIGHTS = "the file of model.weights"  # beside the packages: by its digest, where the job names one
REPORTED = (*MUST_BE_EQUAL, "torch", "numpy", "nvflare")


class Handshake(FrozenConfig):
    """The first message of either side.

    Attributes:
        protocol: of the messages.
        versions: of the packages that make the weights; and the digest of the file that they begin with.
        job: the job's digest, as this side computes it.
        session: of the coordinator's present stay in the job.
    """

    protocol: int
    versions: Mapping[str, str]
    job: str
    session: str


def shake_hands(job: str, session: str, weights: str | None = None) -> Handshake:
    """This side's handshake.

    Args:
        job: its digest.
        session: of the coordinator's present stay in it.
        weights: the digest of the file that the job begins with, if it names one.
    """
    versions = installed() | ({WEIGHTS: weights} if weights else {})
    return Handshake(protocol=PROTOCOL, versions=versions, job=job, session=session)


def installed() -> dict[str, str]:
    """The versions of what is installed here; what is not is absent."""
    found = {}
    for name in REPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def refuse_incompatible(name: str, theirs: Handshake, ours: Handshake) -> None:
    """Refuse a side that runs something else.

    Raises:
        EngineError: naming the versions and what to do.
    """
    for package in MUST_BE_EQUAL:
        there, here = theirs.versions.get(package, "none"), ours.versions.get(package, "none")
        if there != here:
            raise tell(
                EngineError(
                    f"{name} runs {package} {there}, this side {here}; install the same version on both sides"
                )
            )
    if theirs.protocol != ours.protocol:
        raise tell(
            EngineError(
                f"{name} speaks version {theirs.protocol} of our messages, this side {ours.protocol}; "
                "install the same version of dermfed on both sides"
            )
        )
    if theirs.job != ours.job:
        raise tell(
            EngineError(
                f"{name} reads the job as {theirs.job}, this side as {ours.job}; the same job has one "
                "digest: install the same version of dermfed, and of others' parts that the job names, on "
                "both sides"
            )
        )


def refuse_other_weights(theirs: str, ours: str | None) -> None:
    """Refuse a coordinator that begins with another file of weights than is here.

    A job may name any file of this machine: its digest is told only to whoever knows it.

    Raises:
        EngineError: naming theirs, and not ours.
    """
    if ours is not None and theirs != ours:
        raise tell(
            EngineError(
                f"the coordinator begins with other weights than this side: {theirs} there; put the same "
                "file, or install the same package, on both sides (sha256sum tells the digest)"
            )
        )


def differing(theirs: Handshake, ours: Handshake) -> dict[str, str]:
    """The packages of which the sides have different versions, and theirs: digits of weights may differ."""
    return {
        name: theirs.versions.get(name, "none")
        for name in ours.versions
        if theirs.versions.get(name) != ours.versions[name]
    }
