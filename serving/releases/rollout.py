"""A candidate next to production: it answers a share of the requests, or is compared on them.

What canaries there are, the poll of production tells in the same moment as what production is, so that a
request sees both as they were together. A thread loads their releases, at most one for a model. Whatever is
in a canary's way, production answers: one that is not loaded, or fails with a picture, takes no answer from
anybody, and says so on /readyz and in metrics.

Which requests a canary answers, a keyed hash of the first picture says, in every worker the same. Not by the
id of the request, which is a new one each time: whoever sends a picture again, since an answer did not come
through or a field was to be filled in, would get another version by chance. And by nothing that a caller may
choose and compute: the key is told to nobody, so that which version a picture gets shows only when it is
asked for, and every answer says it. Where the share rises, pictures that the canary answered stay with it.

A canary that is mirrored answers no request: it runs in the background on pictures that are sampled by the
hash of their request's id. Nothing waits for a comparison: a few wait at most, one thread works on them, and
what comes while more wait, or while pictures wait for production's model, is left out and counted. What
waits holds the decoded picture; its bytes only where the candidate decodes it by another rule. Nothing is
kept when it has been compared. Counters are sums of both sides instead of differences, since counters of
several workers only ever grow.
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
from registry.bundle.errors import BundleError
from registry.bundle.labels import GLOBAL
from registry.bundle.metrics.intervals import mean_interval
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule
from registry.bundle.text import shown
from registry.errors import RegistryError
from registry.records import Canary
from serving.decoding.decoded import Decode, decode_here
from serving.inference.predictor import Decoded, LoadedVersion, build_diagnosis, decode
from serving.metrics.metrics import Metrics
from serving.metrics.multiprocess import WorkerTotals
from serving.protocol.parameters import Parameters
from serving.protocol.problems import InvalidParameter, NothingServed, ProblemResponse
from serving.protocol.routing import RouteReason, select_subgroup, subgroup_of
from serving.protocol.schemas import Diagnosis
from serving.releases.current_release import (
    RETRY_SECONDS,
    CurrentRelease,
    ServedRelease,
)
from serving.releases.loading import LoadedRelease
from serving.settings import ServeSettings


def place_of(key: bytes, picture: bytes) -> float:
    """Where a picture lies between 0 and 1, evenly over pictures; a canary answers those below its share.

    Args:
        key: the canary's.
        picture: its bytes, as they were sent.
    """
    digest = hmac.digest(key, hashlib.sha256(picture).digest(), "sha256")
    return int.from_bytes(digest[:8]) / 2**64


def is_for(canary: Canary, loaded: LoadedRelease, parameters: Parameters) -> bool:
    """Whether a canary is for whom a request declares to be of; `loaded` is its release."""
    if canary.subgroup is None:
        return True
    everybody = loaded.versions[GLOBAL].manifest
    tone, scale = parameters.skin_tone, parameters.skin_tone_scale
    return subgroup_of(loaded.subgroups, everybody, tone, scale) == canary.subgroup


log = logging.getLogger("dermfed.serve")

Answered = Literal["canary", "production", "not-loaded", "failed"]
"""By whom a request was answered that a canary might have: production, where it lies beyond the share, or
since the canary was not loaded, or failed."""

_LOOK_SECONDS: Final = 0.1  # how soon a canary of the newest poll is noticed
_LARGE: Final = 2**22  # bytes of a picture that is hashed in a thread: of fewer it takes 2 ms at most
_CLOSING_SECONDS: Final = 10.0


@dataclass(frozen=True)
class _Held:
    """A canary's release, as far as it is loaded.

    Attributes:
        loaded: the release; None where it could not be loaded.
        failed: when loading it failed, on the monotonic clock.
        issue: why it does not answer; empty where it does.
    """

    loaded: LoadedRelease | None
    failed: float = float("-inf")
    issue: str = ""


class CanaryReleases:
    """Holds the releases of canaries, and chooses by which release a request is answered."""

    def __init__(
        self,
        settings: ServeSettings,
        metrics: Metrics,
        current_release: CurrentRelease,
    ) -> None:
        """Loads what there is, and starts the thread.

        Args:
            settings: the alias.
            metrics: where loads and answers are counted.
            current_release: production, which knows what canaries there are.
        """
        self._current = current_release
        self._metrics = metrics
        self._label = f"{settings.alias}/canary"  # no alias has a name with a stroke
        self._held: Mapping[int, _Held] = {}  # by the canary's event
        self._stop = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join(_CLOSING_SECONDS)

    def health_issues(self) -> list[str]:
        """Why canaries do not answer, a sentence each; production does in their place."""
        canaries = self._current.served.canaries
        return [
            f"canary: release {one.release.id} of {model}: {held.issue}"
            for model, one in sorted(canaries.items())
            if (held := self._held.get(one.event)) is not None and held.issue
        ]

    def answering(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        """The canaries that answer now, each with its release, by model."""
        return {model: one for model, one in self._all_ready().items() if not one[0].mirror}

    def mirrored(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        """The canaries that are only compared, each with its release, by model."""
        return {model: one for model, one in self._all_ready().items() if one[0].mirror}

    def _all_ready(self) -> dict[str, tuple[Canary, LoadedRelease]]:
        served = self._current.served
        found = {model: self._ready(served, model) for model in served.canaries}
        return {model: one for model, one in found.items() if one is not None}

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
        model = production.release.model
        canary = served.canaries.get(model)
        if canary is None or canary.mirror or canary.beside != production.release.id or not pictures:
            return production
        held = self._held.get(canary.event)
        loaded = None if held is None else held.loaded
        if loaded is None:
            if canary.subgroup is not None:
                return production  # whom it is for, only its bundles tell
        elif not is_for(canary, loaded, parameters):
            return production
        first = pictures[0]
        place = (
            place_of(canary.key, first)
            if len(first) < _LARGE
            else await anyio.to_thread.run_sync(place_of, canary.key, first)
        )
        if place >= canary.share:
            self._count(canary, "production")
        elif held is None or loaded is None:
            self._count(canary, "not-loaded")
        else:
            return loaded
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
        self._metrics.canary_request(canary.release.model, canary.release.id, by)

    def _ready(self, served: ServedRelease, model: str) -> tuple[Canary, LoadedRelease] | None:
        canary, production = served.canaries.get(model), served.releases.get(model)
        if canary is None or production is None or canary.beside != production.release.id:
            return None
        held = self._held.get(canary.event)
        if held is None or held.loaded is None:
            return None
        return canary, held.loaded

    def _run(self) -> None:
        try:
            while not self._stop.wait(_LOOK_SECONDS):
                try:
                    self._look()
                except Exception:
                    # Whatever it is, the thread has to live: the next look may succeed.
                    log.exception("canaries could not be followed")
        finally:
            self._held = {}

    def _look(self) -> None:
        """Loads canaries that are new, and forgets what has ended."""
        served = self._current.served
        before, held = self._held, dict[int, _Held]()
        for model, canary in served.canaries.items():
            held[canary.event] = self._follow(model, canary, before.get(canary.event), before)
        # What ends may be what production is just loading: then it is taken over.
        taken = {event: one for event, one in before.items() if _model_of(one) in served.loading}
        self._held = {**taken, **held}
        self._tell(served)

    def _follow(
        self,
        model: str,
        canary: Canary,
        known: _Held | None,
        before: Mapping[int, _Held],
    ) -> _Held:
        loaded = known.loaded if known else _same(canary, before)
        if loaded is None:
            if known is not None and time.monotonic() - known.failed < RETRY_SECONDS:
                return known
            began = time.monotonic()
            try:
                loaded = self._current.loader.load(canary.release)
            except Exception as error:  # noqa: BLE001 - whatever it is, production goes on
                self._metrics.not_loaded(self._label, model)
                instead = "nothing is compared" if canary.mirror else "production answers in its place"
                issue = f"it cannot be served, and {instead}: {error}"
                if known is None or known.issue != issue:
                    _log(model, issue, error)
                return _Held(None, time.monotonic(), issue)
            self._metrics.loaded(self._label, model, time.monotonic() - began)
            log.info("canary release %d of %s: %s", canary.release.id, model, shown(canary.title))
        return _Held(loaded)

    def _tell(self, served: ServedRelease) -> None:
        """Sets the gauges: which canaries this worker serves, with which share, and which it does not."""
        issues = [m for m, one in served.canaries.items() if self._held[one.event].issue]
        ready = self._all_ready()
        self._metrics.serving(self._label, {m: one.release.id for m, (one, _) in ready.items()}, issues)
        answers = {m: one for m, one in served.canaries.items() if not one.mirror}
        self._metrics.canary_shares({(m, one.release.id): one.share for m, one in answers.items()})


def _log(model: str, issue: str, error: Exception) -> None:
    """Logs why a canary is not served; an error that nobody foresaw with its traceback."""
    foreseen = isinstance(error, RegistryError | BundleError | OSError)
    log.error("the canary of %s: %s", model, shown(issue), exc_info=None if foreseen else error)


def _model_of(held: _Held) -> str | None:
    return None if held.loaded is None else held.loaded.release.model


def _same(canary: Canary, before: Mapping[int, _Held]) -> LoadedRelease | None:
    """The release of a canary whose share has changed alone, which is loaded already."""
    held = (one.loaded for one in before.values() if one.loaded is not None)
    return next((one for one in held if one.release == canary.release), None)


Side = Literal["production", "candidate"]
SIDES: tuple[Side, Side] = ("production", "candidate")

COMPARISONS: Final = "dermfed_shadow_comparisons"
AGREEMENTS: Final = "dermfed_shadow_agreements"
DECISIONS: Final = "dermfed_shadow_decisions"
MALIGNANCY: Final = "dermfed_shadow_malignancy"
SET_CODES: Final = "dermfed_shadow_set_codes"
SECONDS: Final = "dermfed_shadow_seconds"

_PAIR: Final = ("model", "version", "candidate", "subgroup")


class ShadowCounters:
    """The counters of shadow comparisons, summed over all workers."""

    def __init__(self, metrics: Metrics) -> None:
        """Registers the counters with the service's metrics."""

        def counter(name: str, about: str, *more: str) -> Counter:
            return Counter(name, about, [*_PAIR, *more], registry=metrics.registry)

        self._comparisons = counter(COMPARISONS, "Pictures that were shown to both")
        self._agreements = counter(AGREEMENTS, "Pictures of which both found the same class most probable")
        self._decisions = counter(DECISIONS, "What each decided", "before", "after")
        self._malignancy = counter(MALIGNANCY, "Malignancy probabilities, summed", "side")
        self._set_codes = counter(SET_CODES, "Classes in all prediction sets together", "side")
        self._seconds = counter(SECONDS, "Time of the model alone, of the pictures it was taken of", "side")
        self._left_out = Counter(
            "dermfed_shadow_left_out",
            "Pictures that were to be compared and were not",
            ["model", "why"],
            registry=metrics.registry,
        )

    def compared(self, subgroup: str, production: Diagnosis, candidate: Diagnosis) -> None:
        """Counts the two answers for one picture, by the subgroup of its declared tone."""
        pair = _pair(subgroup, production, candidate)
        self._comparisons.labels(*pair).inc()
        same = production.findings[0].code == candidate.findings[0].code
        self._agreements.labels(*pair).inc(int(same))
        self._decisions.labels(*pair, production.decision, candidate.decision).inc()
        both = dict(zip(SIDES, (production, candidate), strict=True))
        risks = {side: one.malignancy.probability for side, one in both.items()}
        for side, one in both.items():
            self._set_codes.labels(*pair, side).inc(len(one.prediction_set.codes))
            if None not in risks.values():
                self._malignancy.labels(*pair, side).inc(risks[side] or 0.0)

    def timed(
        self, subgroup: str, production: Diagnosis, candidate: Diagnosis, seconds: tuple[float, float]
    ) -> None:
        """Counts the seconds of each model for one picture, run one after the other on the same thread."""
        for side, run_seconds in zip(SIDES, seconds, strict=True):
            self._seconds.labels(*_pair(subgroup, production, candidate), side).inc(run_seconds)

    def left_out(self, model: str, why: Literal["busy", "failed", "not-taken"]) -> None:
        """Counts a sampled picture that was not compared."""
        self._left_out.labels(model, why).inc()


def _pair(subgroup: str, production: Diagnosis, candidate: Diagnosis) -> tuple[str, str, str, str]:
    answered = production.model
    return answered.name, str(answered.version), str(candidate.model.version), subgroup


WAITING: Final = 8
"""The longest queue of pictures to be compared."""

TIMED: Final = 4
"""One comparison in so many is also timed, which takes one more run of each model."""


@dataclass(frozen=True)
class AnsweredPicture:
    """A picture, or a case, that production has answered.

    Attributes:
        loaded: the version that answered.
        subgroup: of the declared tone, as figures call it.
        parameters: what the request declared.
        contents: the bytes of the pictures that were sent.
        decoded: them as the version's model saw them.
        diagnosis: production's answer.
    """

    loaded: LoadedVersion
    subgroup: str
    parameters: Parameters
    contents: Sequence[bytes] = field(repr=False)
    decoded: Decoded = field(repr=False)
    diagnosis: Diagnosis


@dataclass(frozen=True)
class _PendingComparison:
    """A picture or case in the queue, as the candidate takes it.

    Attributes:
        pictures: decoded; or the bytes, to be decoded by the candidate's own picture rule.
        given: what is given beside them; None where the candidate takes single pictures.
    """

    answered_by: LoadedVersion
    candidate: LoadedVersion
    route: RouteReason
    subgroup: str
    parameters: Parameters
    diagnosis: Diagnosis
    pictures: Decoded | Sequence[bytes] = field(repr=False)
    given: GivenCase | None = field(repr=False)


class ShadowComparison:
    """Runs candidates, which are mirrored canaries, in a thread of its own, and counts how they compare."""

    def __init__(
        self,
        canaries: CanaryReleases,
        settings: ServeSettings,
        metrics: Metrics,
        counters: ShadowCounters,
        decode_one: Decode = decode_here,
    ) -> None:
        """Starts the thread.

        Args:
            canaries: among them the candidates.
            settings: the limits of pictures.
            metrics: knows whether pictures wait for production.
            counters: where the comparisons are counted.
            decode_one: decodes pictures for candidates with another picture rule; by default in this process.
        """
        self._canaries = canaries
        self._decode_one = decode_one
        self._settings = settings
        self._metrics = metrics
        self._counters = counters
        self._waiting: Queue[_PendingComparison | None] = Queue(WAITING)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shadow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; the queue is dropped."""
        self._stop.set()
        with suppress(Full):  # a full queue wakes the thread by itself
            self._waiting.put_nowait(None)
        self._thread.join()

    def submit(self, answered: AnsweredPicture) -> None:
        """Queues the picture for comparison if it is sampled and a candidate differs; counts one left out."""
        found = self._canaries.mirrored().get(answered.loaded.version.model)
        if found is None or not is_sampled(answered.diagnosis.id, found[0].share):
            return
        (canary, release), parameters = found, answered.parameters
        if not is_for(canary, release, parameters):
            return
        routed = select_subgroup(release.manifests, parameters.skin_tone, parameters.skin_tone_scale)
        candidate = release.versions[routed.subgroup]
        if candidate.version.digest == answered.loaded.version.digest:
            return  # it is in production
        try:
            given = given_anew(candidate, answered.decoded.question.given)
        except ValueError:  # what it says names facts, which belong into no log
            self._counters.left_out(answered.loaded.version.model, "not-taken")
            return
        same = same_pixels(candidate.manifest.picture, answered.loaded.manifest.picture)
        waiting = _PendingComparison(
            answered.loaded,
            candidate,
            routed.reason,
            answered.subgroup,
            parameters,
            answered.diagnosis,
            answered.decoded if same else answered.contents,
            given,
        )
        if self._metrics.requests_waiting or not self._enqueue(waiting):
            self._counters.left_out(answered.loaded.version.model, "busy")

    def _enqueue(self, waiting: _PendingComparison) -> bool:
        try:
            self._waiting.put_nowait(waiting)
        except Full:
            return False
        return True

    def _run(self) -> None:
        number = 0
        while (waiting := self._waiting.get()) is not None and not self._stop.is_set():
            try:
                self._compare(waiting, timed=number % TIMED == 0)
            except Exception as error:  # noqa: BLE001 - production has answered, whatever it is, and goes on
                self._counters.left_out(waiting.answered_by.version.model, "failed")
                log.warning("the candidate failed on a picture: %s", type(error).__name__)
            number += 1
            del waiting  # until the next one comes, neither its picture nor its models are held

    def _compare(self, waiting: _PendingComparison, *, timed: bool) -> None:
        candidate, pictures, given = waiting.candidate, waiting.pictures, waiting.given
        if isinstance(pictures, Decoded):
            decoded = replace(pictures, question=Question(pictures.question.images, given))
        else:
            decoded = decode(candidate, pictures, self._settings.max_pixels, given, self._decode_one)
        outputs = ask(candidate.graph, [decoded.question])
        diagnosis = build_diagnosis(
            candidate,
            decoded,
            outputs,
            waiting.parameters,
            waiting.route,
            request_id=waiting.diagnosis.id,
        )
        self._counters.compared(waiting.subgroup, waiting.diagnosis, diagnosis)
        if timed and isinstance(pictures, Decoded):
            # Both alike: each runs once the other has, on a picture that the caches hold. What the candidate
            # just took is not counted: it would have been the first to see the picture.
            production = run_seconds(waiting.answered_by.graph, pictures.question)
            its_own = run_seconds(candidate.graph, decoded.question)
            self._counters.timed(waiting.subgroup, waiting.diagnosis, diagnosis, (production, its_own))


def run_seconds(graph: Graph, question: Question) -> float:
    """The time of one run of a model; seconds."""
    began = time.monotonic()
    ask(graph, [question])
    return time.monotonic() - began


def given_anew(candidate: LoadedVersion, given: GivenCase | None) -> GivenCase | None:
    """What production was given, as the candidate takes it.

    Raises:
        ValueError: the candidate does not take it.
    """
    if given is None:
        return read_given(candidate.manifest.case, [None], {})
    return read_given(candidate.manifest.case, [read_kind(kind) for kind in given.pictures], given.facts)


def is_sampled(request_id: str, share: float) -> bool:
    """Whether a request is sampled, by the hash of its id; the same in every worker."""
    digest = int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:8])
    return digest < share * 2**64


def same_pixels(one: PictureRule, other: PictureRule) -> bool:
    """Whether two picture rules decode to the same pixels, whatever size of picture each accepts."""
    return one.model_copy(update={"max_pixels": other.max_pixels}) == other


EVERYBODY = "all"
"""The row of all subgroups together."""


@dataclass(frozen=True)
class ShadowRow:
    """A candidate compared with the version that answered, over the pictures of one subgroup.

    Attributes:
        model: whose versions they are.
        version, candidate: which answered, and which was shown the same pictures.
        subgroup: of the declared tone; `all` for everybody together.
        n: pictures that both were shown.
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
    """The comparisons of the versions served with the current candidates, everybody first, then by subgroup.

    Args:
        totals: the counts of all workers.
        served: the releases that answer.
        candidates: the candidate releases.
    """
    answering, trying = _numbers(served), _numbers(candidates)
    found: dict[tuple[str, int, int], set[str]] = {}
    for labels, n in totals.named(f"{COMPARISONS}_total"):
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
        for labels, value in totals.named(f"{name}_total"):
            of = labels["model"], int(labels["version"]), int(labels["candidate"])
            if of == pair and labels["subgroup"] in wanted:
                key = tuple(labels[one] for one in by)
                counts[key] = counts.get(key, 0.0) + value
        return counts

    n, same = sums(COMPARISONS)[()], sums(AGREEMENTS).get((), 0.0)
    seconds, malignancy, codes = (sums(name, "side") for name in (SECONDS, MALIGNANCY, SET_CODES))
    return ShadowRow(
        model=pair[0],
        version=pair[1],
        candidate=pair[2],
        subgroup=subgroup,
        n=round(n),
        agreement=same / n,
        interval=mean_interval(np.array([same]), np.array([n])),
        decisions={
            (before, after): round(k) for (before, after), k in sums(DECISIONS, "before", "after").items()
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
