"""Which run of a federation a folder holds, and what of it may be changed when it is taken up."""

from collections.abc import Mapping, Sequence

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
        permits: of the hospitals that may return with other data, by name; each is good for one change.
        shown: bytes of its progress that were shown.
        done: whether the run is, and all of it fetched.
    """

    run: str
    digest: str
    job: str = ""
    sent: int = 0
    without: tuple[str, ...] = ()
    permits: Mapping[str, str] = {}
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


def refuse_unchangeable(names: Sequence[str], hospitals: Sequence[str], *, resume: bool) -> None:
    """Refuse changed data of anyone who is no hospital, or in a run that is only to begin.

    Raises:
        FederationError: naming who is in, or what to do.
    """
    for name in names:
        if name not in hospitals:
            raise FederationError(
                f"there is no hospital {name!r} with data that changed; {nearest(name, list(hospitals))}"
            )
    if names and not resume:
        raise FederationError(
            "--changed-data is for a run that has begun: give --resume beside it. A run that begins takes "
            "each hospital's data as they are"
        )
