"""A candidate next to production: it answers a share of the requests, or is compared on them.

Which canaries there are, and their releases as far as they are loaded, a request sees in the same snapshot as
production (`serving.releases.current_release`). Whatever is in a canary's way, production answers: one that
is not loaded, or fails with a picture, takes no answer, and says so on /readyz and in metrics.

A keyed hash of the first picture says whether it is within a canary's share, in every worker the same. Not
the id of the request, which is new each time: a picture that is sent again, since an answer did not come
through or a field was to be filled in, would get another version by chance. And nothing that a caller may
choose and compute: no caller knows the key, so that which version a picture gets shows only when it is asked
for, and every answer says it. Where the share rises, pictures that the canary answered stay with it.

A canary that is mirrored answers no request: it runs in the background on the pictures within its share.
Nothing waits for a comparison: a few wait at most, one thread works on them, and what comes while more wait,
or while pictures wait for production's model, is left out and counted. What waits holds the decoded picture;
its bytes only where the candidate decodes it by another rule. Nothing is kept when it has been compared.
"""

import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Full, Queue
from typing import Final, Literal

import anyio.to_thread
import numpy as np
from prometheus_client import Counter

from registry.bundle.cases import GivenCase, read_given, read_kind
from registry.bundle.diagnose import Question, ask
from registry.bundle.labels import GLOBAL
from registry.bundle.metrics.intervals import mean_interval
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule
from registry.records import Canary
from serving.decoding.messages import Decode, decode_here
from serving.inference.predictor import Decoded, LoadedVersion, build_diagnosis, decode
from serving.metrics import Metrics, WorkerTotals
from serving.protocol.parameters import Parameters, RouteReason, select_subgroup, subgroup_of
from serving.protocol.problems import InvalidParameter, NothingServed, ProblemResponse
from serving.protocol.schemas import Diagnosis
from serving.releases.current_release import CurrentRelease, ServedRelease
from serving.releases.loading import LoadedRelease
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

WAITING: Final = 8
"""The longest queue of pictures to be compared."""

TIMED: Final = 4
"""One comparison in so many is also timed, which takes one more run of each model."""

EVERYBODY = "all"
"""The row of all subgroups together."""

Answered = Literal["canary", "production", "not-loaded", "failed"]
"""By whom a request was answered that a canary might have: production, where it lies beyond the share, or
since the canary was not loaded, or failed."""

_LARGE: Final = 2**22  # bytes of a picture that is hashed in a thread: of fewer it takes 2 ms at most


@dataclass(frozen=True)
class AnsweredPicture:
    """A picture, or a case, that production has answered.

    Attributes:
        loaded: the version that answered.
        subgroup: of the declared tone, as figures call it.
        parameters: what the request declared.
        decoded: the pictures as the version's model saw them.
        diagnosis: production's answer.
    """

    loaded: LoadedVersion
    subgroup: str
    parameters: Parameters
    decoded: Decoded = field(repr=False)
    diagnosis: Diagnosis


Side = Literal["production", "candidate"]
SIDES: tuple[Side, Side] = ("production", "candidate")

_PAIR: Final = ("model", "version", "candidate", "subgroup")
_COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "agreements": ("Pictures of which both found the same class most probable", ()),
    "decisions": ("What each decided", ("before", "after")),
    "malignancy": ("Malignancy probabilities, summed", ("side",)),
    "set_codes": ("Classes in all prediction sets together", ("side",)),
    "seconds": ("Time of the model alone, of the pictures it was taken of", ("side",)),
    "comparisons": ("Pictures that were shown to both", ()),
}
"""Of how candidates compare with production, summed over all workers: what each counts, and by what besides
`_PAIR`. Sums of both sides are kept instead of differences, since counters of several workers only grow."""

_Comparison = tuple[AnsweredPicture, LoadedVersion, RouteReason, GivenCase | None]
"""What production answered, the candidate, why it is this one, and the facts as the candidate takes them."""


class Rollout:
    """Chooses by which release a request is answered, and compares mirrored canaries in the background."""

    def __init__(
        self,
        settings: ServeSettings,
        metrics: Metrics,
        current_release: CurrentRelease,
        decode_one: Decode = decode_here,
    ) -> None:
        """Registers the counters, and starts the thread that compares.

        Args:
            settings: the limits of pictures.
            metrics: where answers and comparisons are counted; knows whether pictures wait for production.
            current_release: production, with its canaries.
            decode_one: decodes pictures for candidates with another picture rule; by default in this process.
        """
        self._settings = settings
        self._metrics = metrics
        self._current = current_release
        self._decode_one = decode_one
        self._counters = {
            name: Counter(f"dermfed_shadow_{name}", about, [*_PAIR, *more], registry=metrics.registry)
            for name, (about, more) in _COUNTERS.items()
        }
        self._left_out = Counter(
            "dermfed_shadow_left_out",
            "Pictures that were to be compared and were not",
            ["model", "why"],
            registry=metrics.registry,
        )
        self._waiting: Queue[_Comparison | None] = Queue(WAITING)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; the queue is dropped."""
        self._stop.set()
        with suppress(Full):  # a full queue wakes the thread by itself
            self._waiting.put_nowait(None)
        self._thread.join()

    def answering(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        """The canaries that answer now, each with its release, by model."""
        return self._loaded(mirror=False)

    def mirrored(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        """The canaries that are only compared, each with its release, by model."""
        return self._loaded(mirror=True)

    def _loaded(self, *, mirror: bool) -> dict[str, tuple[Canary, LoadedRelease]]:
        served = self._current.served
        found = {model: served.candidate(model) for model in served.canaries}
        return {model: one for model, one in found.items() if one and one[0].mirror is mirror}

    async def choose(
        self,
        served: ServedRelease,
        production: LoadedRelease,
        pictures: Sequence[bytes],
        parameters: Parameters,
    ) -> LoadedRelease:
        """The release by which a request is answered: the canary's, or production's.

        Args:
            served: what is served to this request.
            production: of its model.
            pictures: their bytes; the first decides.
            parameters: what the request declares.
        """
        canary = served.canaries.get(production.release.model)
        if canary is None or canary.mirror or canary.beside != production.release.id or not pictures:
            return production
        found = served.candidate(production.release.model)
        if found is None and canary.subgroup is not None:
            return production  # whom it is for, only its bundles tell
        if found is not None and not _is_for(*found, parameters):
            return production
        if not await _is_within(canary, pictures[0]):
            self._count(canary, "production")
        elif found is None:
            self._count(canary, "not-loaded")
        else:
            return found[1]
        return production

    def gives_way(self, error: Exception) -> bool:
        """Whether production is asked where a canary has failed with this.

        Not where the picture is at fault or the service is busy: production would say the same.
        """
        return not isinstance(error, ProblemResponse) or isinstance(error, InvalidParameter | NothingServed)

    def answered(self, served: ServedRelease, chosen: LoadedRelease, by: Answered) -> None:
        """Counts an answer of a canary, or that it failed and production answered."""
        if (canary := served.canaries.get(chosen.release.model)) is not None:
            self._count(canary, by)

    def _count(self, canary: Canary, by: Answered) -> None:
        self._metrics.canary_requests.labels(canary.release.model, str(canary.release.id), by).inc()

    async def compare(self, answered: AnsweredPicture) -> None:
        """Queues an answered picture for a mirrored canary that it is within; counts one that is left out."""
        model, parameters = answered.loaded.version.model, answered.parameters
        found = self._current.served.candidate(model)
        if found is None or not found[0].mirror or not _is_for(*found, parameters):
            return
        canary, release = found
        routed = select_subgroup(release.manifests, parameters.skin_tone, parameters.skin_tone_scale)
        candidate = release.versions[routed.subgroup]
        if candidate.version.digest == answered.loaded.version.digest:
            return  # it is in production
        if not await _is_within(canary, answered.decoded.sources[0][0]):
            return
        try:
            given = given_again(candidate, answered.decoded.question.given)
        except ValueError:  # what it says names facts, which belong into no log
            self._left_out.labels(model, "not-taken").inc()
            return
        if same_pixels(candidate.manifest.picture, answered.loaded.manifest.picture):
            answered = replace(answered, decoded=replace(answered.decoded, sources=()))
        if self._metrics.requests_waiting or not self._enqueue((answered, candidate, routed.reason, given)):
            self._left_out.labels(model, "busy").inc()

    def _enqueue(self, waiting: _Comparison) -> bool:
        try:
            self._waiting.put_nowait(waiting)
        except Full:
            return False
        return True

    def _run(self) -> None:
        number = 0
        while (waiting := self._waiting.get()) is not None and not self._stop.is_set():
            try:
                self._compare(*waiting, timed=number % TIMED == 0)
            except Exception as error:  # noqa: BLE001 - production has answered, whatever it is, and goes on
                self._left_out.labels(waiting[0].loaded.version.model, "failed").inc()
                log.warning("the candidate failed on a picture: %s", type(error).__name__)
            number += 1
            del waiting  # until the next one comes, neither its picture nor its models are held

    def _compare(
        self,
        answered: AnsweredPicture,
        candidate: LoadedVersion,
        reason: RouteReason,
        given: GivenCase | None,
        *,
        timed: bool,
    ) -> None:
        decoded, production = answered.decoded, answered.diagnosis
        if decodes := bool(decoded.sources):
            decoded = decode(
                candidate,
                decoded.sources,
                self._settings.max_pixels,
                given,
                self._decode_one,
                burned_in=True,
            )
        else:
            decoded = replace(decoded, question=Question(decoded.question.images, given))
        outputs = ask(candidate.graph, [decoded.question])
        made = build_diagnosis(
            candidate, decoded, outputs, answered.parameters, reason, request_id=production.id
        )
        seconds = None
        if timed and not decodes:
            # Both alike: each runs once the other has, on a picture that the caches hold. What the candidate
            # just took is not counted: it would have been the first to see the picture.
            before = _run_seconds(answered.loaded.graph, answered.decoded.question)
            seconds = before, _run_seconds(candidate.graph, decoded.question)
        self._count_pair(answered.subgroup, production, made, seconds)

    def _count_pair(
        self, subgroup: str, production: Diagnosis, made: Diagnosis, seconds: tuple[float, float] | None
    ) -> None:
        """Counts the two answers for one picture, and the seconds of each model where they were taken."""
        answering = production.model
        pair = answering.name, str(answering.version), str(made.model.version), subgroup

        def count(name: str, *more: str, by: float = 1) -> None:
            self._counters[name].labels(*pair, *more).inc(by)

        count("agreements", by=int(production.findings[0].code == made.findings[0].code))
        count("decisions", production.decision, made.decision)
        risks = production.malignancy.probability, made.malignancy.probability
        for place, (side, one) in enumerate(zip(SIDES, (production, made), strict=True)):
            count("set_codes", side, by=len(one.prediction_set.codes))
            if None not in risks:
                count("malignancy", side, by=risks[place] or 0.0)
            if seconds is not None:
                count("seconds", side, by=seconds[place])
        count("comparisons")


def place_of(key: bytes, picture: bytes) -> float:
    """Where a picture lies between 0 and 1, evenly over pictures; a canary answers those below its share.

    Args:
        key: the canary's.
        picture: its bytes, as they were sent.
    """
    digest = hmac.digest(key, hashlib.sha256(picture).digest(), "sha256")
    return int.from_bytes(digest[:8]) / 2**64


async def _is_within(canary: Canary, picture: bytes) -> bool:
    """Whether a picture is within a canary's share."""
    key = canary.key
    large = len(picture) >= _LARGE
    place = await anyio.to_thread.run_sync(place_of, key, picture) if large else place_of(key, picture)
    return place < canary.share


def _is_for(canary: Canary, loaded: LoadedRelease, parameters: Parameters) -> bool:
    """Whether a canary is for whom a request declares to be of; `loaded` is its release."""
    if canary.subgroup is None:
        return True
    everybody = loaded.versions[GLOBAL].manifest
    tone, scale = parameters.skin_tone, parameters.skin_tone_scale
    return subgroup_of(loaded.subgroups, everybody, tone, scale) == canary.subgroup


def _run_seconds(graph: Graph, question: Question) -> float:
    """The time of one run of a model; seconds."""
    began = time.monotonic()
    ask(graph, [question])
    return time.monotonic() - began


def given_again(candidate: LoadedVersion, given: GivenCase | None) -> GivenCase | None:
    """What production was given, as the candidate takes it.

    Raises:
        ValueError: the candidate does not take it.
    """
    if given is None:
        return read_given(candidate.manifest.case, [None], {})
    return read_given(candidate.manifest.case, [read_kind(kind) for kind in given.pictures], given.facts)


def same_pixels(one: PictureRule, other: PictureRule) -> bool:
    """Whether two picture rules decode to the same pixels, whatever size of picture each accepts."""
    return one.model_copy(update={"max_pixels": other.max_pixels}) == other


@dataclass(frozen=True)
class ShadowRow:
    """A candidate compared with the version that answered, over the pictures of one subgroup.

    Attributes:
        model: whose versions they are.
        version, candidate: which answered, and which ran on the same pictures.
        subgroup: of the declared tone; `all` for all subgroups together.
        n: pictures that both ran on.
        agreement: the share of which both found the same class most probable.
        interval: of that share, 95 %.
        decisions: how many pictures went from which decision to which.
        malignancy: the mean malignancy probability of each side; None where no class is malignant.
        set_size: the mean size of each side's prediction sets.
        latency_ratio: the candidate's time over production's, of the model alone; None before it was taken.
    """

    model: str
    version: int
    candidate: int
    subgroup: str
    n: int
    agreement: float
    interval: tuple[float, float]
    decisions: Mapping[tuple[str, str], int]
    malignancy: Mapping[Side, float] | None
    set_size: Mapping[Side, float]
    latency_ratio: float | None

    @property
    def changed(self) -> int:
        """Pictures that the candidate decided otherwise."""
        return sum(n for (before, after), n in self.decisions.items() if before != after)

    @property
    def malignancy_difference(self) -> float | None:
        """The candidate's mean malignancy probability less production's."""
        return (
            None if self.malignancy is None else self.malignancy["candidate"] - self.malignancy["production"]
        )


def shadow_table(
    totals: WorkerTotals, served: Iterable[LoadedRelease], candidates: Iterable[LoadedRelease]
) -> list[ShadowRow]:
    """The comparisons of the versions served with the current candidates, overall first, then by subgroup.

    Args:
        totals: the counts of all workers.
        served: the releases that answer.
        candidates: the candidate releases.
    """
    answering, trying = _numbers(served), _numbers(candidates)
    found: dict[tuple[str, int, int], set[str]] = {}
    for labels, n in totals.named("dermfed_shadow_comparisons_total"):
        pair = labels["model"], int(labels["version"]), int(labels["candidate"])
        # A counter that a worker is just making, or was killed while making, is 0.
        if n and (pair[0], pair[1]) in answering and (pair[0], pair[2]) in trying:
            found.setdefault(pair, set()).add(labels["subgroup"])
    return [
        _row(totals, pair, subgroup, subgroups)
        for pair, subgroups in sorted(found.items())
        for subgroup in (EVERYBODY, *sorted(subgroups))
    ]


def _row(totals: WorkerTotals, pair: tuple[str, int, int], subgroup: str, subgroups: set[str]) -> ShadowRow:
    wanted = subgroups if subgroup == EVERYBODY else {subgroup}

    def sums(name: str, *by: str) -> dict[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {}
        for labels, value in totals.named(f"dermfed_shadow_{name}_total"):
            of = labels["model"], int(labels["version"]), int(labels["candidate"])
            if of == pair and labels["subgroup"] in wanted:
                key = tuple(labels[one] for one in by)
                counts[key] = counts.get(key, 0.0) + value
        return counts

    n, same = sums("comparisons")[()], sums("agreements").get((), 0.0)
    seconds, malignancy, codes = (sums(name, "side") for name in ("seconds", "malignancy", "set_codes"))
    return ShadowRow(
        model=pair[0],
        version=pair[1],
        candidate=pair[2],
        subgroup=subgroup,
        n=round(n),
        agreement=same / n,
        interval=mean_interval(np.array([same]), np.array([n])),
        decisions={
            (before, after): round(k) for (before, after), k in sums("decisions", "before", "after").items()
        },
        malignancy={side: malignancy.get((side,), 0.0) / n for side in SIDES} if malignancy else None,
        set_size={side: codes.get((side,), 0.0) / n for side in SIDES},
        latency_ratio=seconds[("candidate",)] / seconds[("production",)] if len(seconds) == 2 else None,
    )


def _numbers(releases: Iterable[LoadedRelease]) -> set[tuple[str, int]]:
    return {
        (release.release.model, one.version.number)
        for release in releases
        for one in release.versions.values()
    }
