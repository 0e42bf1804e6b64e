"""The decoders of a service: a quick lane, and one for pictures that cost a lot.

Every picture goes to the quick lane first, which has a worker for each thread of the service, as far as the
memory goes. Where its header says that it takes more than the lane gives, or where it takes more, it is for
the costly lane, whose one worker has more time and memory. What is beyond that one as well is refused. The
memory is divided among the workers for good: together they cannot take more, and none waits for another's.
"""

import logging
import time
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle import errors
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.decoded import DecodedPicture
from serving.decoding.decoder import DecoderEnded, Reason
from serving.decoding.forking import NoTemplateError, Template
from serving.decoding.lane import Lane
from serving.decoding.need import MARGIN
from serving.decoding.wire import Answer, Pixels, Refused, Takes
from serving.metrics.metrics import Metrics
from serving.protocol.problems import NoDecoder, PictureTooCostly
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

LEAST: Final = 3 * MARGIN // 2
"""Bytes that a quick worker has at least, unless it is the only one."""

QUICK_SECONDS: Final = 1.0
"""Seconds of one core that a picture has in the quick lane; it is sent on at once where half would not do."""

COSTLY_SHARE: Final = 2 / 3
"""The share of the memory that the worker of the costly lane has."""

OFTEN: Final = 10
OFTEN_WITHIN: Final = 600.0  # seconds


class CostlyPicture(Exception):  # noqa: N818 - reads as what it says where it is caught
    """The picture takes more than the quick lane gives; it is for the costly one."""


class Decoders:
    """Decodes pictures in workers of both lanes; several threads may ask at once."""

    def __init__(self, settings: ServeSettings, metrics: Metrics, template: Template | None = None) -> None:
        """Starts nothing yet.

        Args:
            settings: how many workers, and what they may take.
            metrics: where those that ended with a picture are counted.
            template: what workers are forked from; by default a process of its own.
        """
        memory = settings.decode_memory // settings.workers
        costly = int(COSTLY_SHARE * memory)
        self._own = template is None
        self._template = template or Template()
        self._metrics = metrics
        # With less than `MARGIN` a worker would take no picture at all.
        most = max(1, (memory - costly) // LEAST)
        quick = min(settings.threads, most)
        if quick < settings.threads:
            log.warning(
                "%d pictures are decoded at once, not %d: DERMFED_SERVE_DECODE_MEMORY is enough for no more",
                quick,
                settings.threads,
            )
        self._quick = Lane(self._template, quick, (memory - costly) // quick, QUICK_SECONDS)
        self._costly = Lane(self._template, 1, costly, settings.decode_seconds)
        self._ended: deque[float] = deque(maxlen=OFTEN)
        self._closed = False

    def start(self) -> None:
        """Starts the process that workers are forked from; who wants one first waits for it."""
        try:
            self._template.start()
        except NoTemplateError as error:
            log.error("%s; it is tried again with the next picture", error)  # noqa: TRY400

    def wait(self) -> None:
        """Waits until pictures can be decoded, and tells where decoders may make any system call."""
        try:
            missing = self._template.ready()
        except NoTemplateError as error:
            log.error("%s; it is tried again with the next picture", error)  # noqa: TRY400
            return
        self._metrics.decoders_unfiltered(unfiltered=bool(missing))
        if missing:
            log.error(
                "decoders run without a filter of system calls: %s. One that a picture takes over could "
                "open files and connections of this user; limits on time and memory hold all the same",
                missing,
            )

    def close(self) -> None:
        """Ends all workers."""
        self._closed = True
        self._quick.close()
        self._costly.close()
        if self._own:
            self._template.close()

    @property
    def health_issues(self) -> list[str]:
        """What whoever operates the service has to know of its decoders, one sentence each."""
        ended = self._ended
        if len(ended) < OFTEN or time.monotonic() - ended[0] > OFTEN_WITHIN:
            return []
        return [
            f"decoders ended {OFTEN} times within {OFTEN_WITHIN / 60:.0f} minutes: somebody may send "
            "pictures that are made to stop the service. Each was refused; look at "
            "dermfed_decoders_killed_total, and in the log for who sends them"
        ]

    def decode(self, content: bytes, rule: PictureRule, *, costly: bool = False) -> DecodedPicture:
        """Decodes a picture; blocks until it is done or refused.

        Args:
            content: its bytes.
            rule: the picture rule, which says how.
            costly: whether in the costly lane.

        Raises:
            CostlyPicture: it is for the costly lane, and was not there.
            PictureError: it cannot be decoded, as in `registry.bundle.pictures.rule.decode_picture`.
            PictureTooCostly: it takes too much, or ended its worker.
            NoDecoder: no worker can be forked.
        """
        lane = self._costly if costly else self._quick
        if not costly and 2 * len(content) + MARGIN > lane.memory:
            raise CostlyPicture  # the worker holds it twice before it has looked at it
        try:
            answer, pixels = lane.ask(content, rule, lane.seconds if costly else lane.seconds / 2)
        except NoTemplateError as error:
            log.error("no picture is decoded: %s", error)  # noqa: TRY400
            raise NoDecoder(
                "no process can be started to decode the picture in; try again",
                {"Retry-After": "5"},
            ) from error
        except DecoderEnded as ended:
            self._count(ended.reason, content)
            if not costly:
                raise CostlyPicture from ended
            raise self._too_costly(ended.reason) from ended
        return self._read(answer, pixels, content, costly=costly)

    def _read(
        self, answer: Answer, pixels: NDArray[np.uint8] | None, content: bytes, *, costly: bool
    ) -> DecodedPicture:
        if isinstance(answer, Pixels):
            assert pixels is not None
            why = answer.unused_profile
            return DecodedPicture(answer.width, answer.height, pixels, why, answer.on_its_side)
        if isinstance(answer, Takes):
            if not costly and self._fits(answer):
                raise CostlyPicture
            raise self._beyond(answer)
        if answer.error == "MemoryError":
            self._count("memory", content)
            if not costly:
                raise CostlyPicture
            raise self._too_costly("memory")
        raise _refusal(answer)

    def _fits(self, takes: Takes) -> bool:
        return takes.seconds <= self._costly.seconds and takes.memory <= self._costly.memory

    def _beyond(self, takes: Takes) -> PictureTooCostly:
        if takes.memory > self._costly.memory:
            return PictureTooCostly(
                f"decoding the picture would take some {_megabytes(takes.memory)}; at most "
                f"{_megabytes(self._costly.memory)} are given. Send a smaller copy, or a JPEG"
            )
        return PictureTooCostly(
            f"decoding the picture would take some {takes.seconds:.0f} seconds of a core; at most "
            f"{self._costly.seconds:g} are given. Save it anew as a JPEG that is not progressive, or send a "
            "smaller copy"
        )

    def _too_costly(self, reason: Reason) -> PictureTooCostly:
        what = {
            "time": f"took longer than {self._costly.seconds:g} seconds of a core",
            "memory": f"took more memory than the {_megabytes(self._costly.memory)} that are given",
            "crash": "ended the decoder",
        }
        return PictureTooCostly(
            f"decoding the picture {what[reason]}; open it elsewhere and save it anew as a JPEG, or send a "
            "smaller copy"
        )

    def _count(self, reason: Reason, content: bytes) -> None:
        if self._closed:
            return  # by us
        self._metrics.decoder_killed(reason)
        self._ended.append(time.monotonic())
        log.warning("a decoder ended with a picture of %d bytes: %s", len(content), reason)


def _refusal(answer: Refused) -> errors.PictureError:
    kind: type[errors.PictureError] = getattr(errors, answer.error)
    return kind(answer.said)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
