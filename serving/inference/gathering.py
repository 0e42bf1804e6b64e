"""Which pictures go to a model together, and what is done before they do.

Where a batch pays (on a GPU, or with `gather_seconds`), a decoded picture waits for others of its version
that wait to be decoded or are being decoded, until so many are there that no more go together, or until it
has waited long enough. Where it does not pay, it waits for none that another thread decodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from serving.inference.predictor import Decoded, LoadedVersion
from serving.settings import ServeSettings


@dataclass(frozen=True)
class Batching:
    """How pictures are put together.

    Attributes:
        max_batch: pictures that a model is shown at once at most.
        gather_seconds: how long a decoded one waits at most for others that are being decoded.
        one_run: whether a version runs one batch at a time, so that further ones gather meanwhile.
    """

    max_batch: int = 1
    gather_seconds: float = 0.0
    one_run: bool = False


def batching_of(settings: ServeSettings) -> Batching:
    """How pictures are put together on the device of the settings."""
    gpu = settings.providers != "cpu"
    largest, longest = (32, 0.002) if gpu else (1, 0.0)
    return Batching(
        settings.max_batch or largest,
        longest if settings.gather_seconds is None else settings.gather_seconds,
        one_run=gpu,
    )


class Waiting(Protocol):
    """A picture that waits: see `serving.inference.scheduler.QueuedPicture`."""

    loaded: LoadedVersion
    decoded: Decoded | None
    waiting_since: float


Picture = TypeVar("Picture", bound=Waiting)


@dataclass(frozen=True)
class Choice(Generic[Picture]):
    """What a thread that is free has to do.

    Attributes:
        decode: the picture to decode; None where there is something better to do, or nothing.
        show: the pictures to show to their model together; empty where there is something better to do.
        wait: where there is nothing to do, seconds until there will be; None for when something comes.
    """

    decode: Picture | None = None
    show: Sequence[Picture] = field(default=())
    wait: float | None = None


def choose(
    undecoded: Sequence[Picture],
    decoded: Sequence[Picture],
    *,
    decoding: Sequence[Picture],
    running: Sequence[LoadedVersion],
    batching: Batching,
    now: float,
) -> Choice[Picture]:
    """What is to be done next: of what is nearly done, that which has waited longest.

    Args:
        undecoded: the pictures that wait to be decoded, who came first is first.
        decoded: the pictures that wait to be shown to their model.
        decoding: those that are being decoded.
        running: the versions that a batch is being shown to.
        batching: how pictures are put together.
        now: on the clock of `waiting_since`; seconds.
    """
    pays = batching.one_run or batching.gather_seconds > 0
    looked_at: list[LoadedVersion] = [*running] if batching.one_run else []
    wait: float | None = None
    for first in decoded:
        if _among(first.loaded, looked_at):
            continue
        together = [one for one in decoded if fits_beside(one, first)][: batching.max_batch]
        coming = next((one for one in undecoded if one.loaded is first.loaded), None)
        due = first.waiting_since + batching.gather_seconds - now
        on_its_way = pays and _among(first.loaded, [one.loaded for one in decoding])
        if len(together) >= batching.max_batch or (pays and due <= 0) or not (coming or on_its_way):
            return Choice(show=together)
        if coming is not None:
            return Choice(decode=coming)
        looked_at.append(first.loaded)
        wait = due if wait is None else min(wait, due)
    return Choice(decode=undecoded[0]) if undecoded else Choice(wait=wait)


def fits_beside(one: Waiting, other: Waiting) -> bool:
    """Whether two decoded ones may be run together: of one version, and of as many pictures each.

    A case with fewer pictures would get empty slots, which cost as much as pictures.
    """
    return (
        one.loaded is other.loaded
        and one.decoded is not None
        and other.decoded is not None
        and len(one.decoded.question.images) == len(other.decoded.question.images)
    )


def _among(version: LoadedVersion, versions: Sequence[LoadedVersion]) -> bool:
    """Whether it is one of these; versions are themselves alone, whatever they hold."""
    return any(version is one for one in versions)
