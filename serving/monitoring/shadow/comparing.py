"""Runs a mirrored canary on its share of pictures in the background, and compares it with production.

A picture is sampled by the hash of its request's id. Nothing waits for a comparison: a few wait at most, one
thread works on them, and what comes while more wait, or while pictures wait for production's model, is left
out and counted.

What waits holds the decoded picture; its bytes only where the candidate decodes it by another rule. Nothing
is kept when it has been compared.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Full, Queue
from typing import Final

from registry.bundle.cases import GivenCase, read_given, read_kind
from registry.bundle.diagnose import Question, ask
from registry.bundle.model import Graph
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.messages import Decode, decode_here
from serving.inference.predictor import Decoded, LoadedVersion, build_diagnosis, decode
from serving.metrics.metrics import Metrics
from serving.monitoring.shadow.counting import ShadowCounters
from serving.protocol.parameters import Parameters
from serving.protocol.routing import RouteReason, select_subgroup
from serving.protocol.schemas import Diagnosis
from serving.releases.canary_releases import CanaryReleases
from serving.releases.canary_share import is_for
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

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
