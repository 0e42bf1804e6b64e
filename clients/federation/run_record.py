"""Which run of a federation a folder holds, and what of it may be changed when it is taken up."""

from collections.abc import Sequence

from clients.federation.errors import FederationError
from registry.bundle.nearest import nearest
from training.config import FrozenConfig


class RunRecord(FrozenConfig):
    """The content of `federated.json` in `--out`: which run of the federation this is.

    Attributes:
        run: its name at all sites.
        digest: of its job.
        job: the FLARE job that runs it at present.
        sent: how often it was sent.
        without: the hospitals that were dismissed.
        shown: bytes of its progress that were shown.
        done: whether the run is, and all of it fetched.
    """

    run: str
    digest: str
    job: str = ""
    sent: int = 0
    without: tuple[str, ...] = ()
    shown: int = 0
    done: bool = False


def refuse_unknown(names: Sequence[str], hospitals: Sequence[str]) -> None:
    """Refuse to dismiss anyone who is no hospital of the federation, or all of them.

    Raises:
        FederationError: naming who is in.
    """
    for name in names:
        if name not in hospitals:
            raise FederationError(
                f"there is no hospital {name!r} to dismiss; {nearest(name, list(hospitals))}"
            )
    if hospitals and not set(hospitals) - set(names):
        raise FederationError("no hospital would be left; end the run instead of dismissing all of them")
