"""The decoders of a service: workers that are forked when they are needed, each for one picture at a time.

There is a worker for each thread of the service, as far as the memory goes. The memory is divided among them
for good: together they cannot take more, and none waits for another's. A picture that takes more memory than
its worker has, or more time than the settings give, is refused, and its worker is replaced.
"""

import logging
import threading
import time
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle import errors
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.decoded import DecodedPicture
from serving.decoding.decoder import Decoder, DecoderEnded, Reason
from serving.decoding.forking import NoTemplateError, Template
from serving.decoding.wire import Pixels, Question, Refused
from serving.metrics import Metrics
from serving.protocol.problems import NoDecoder, PictureTooCostly
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

LEAST: Final = 512 * 2**20
"""Bytes that a worker has at least, unless it is the only one: enough for a PNG of 40 million pixels."""

OWN: Final = 32 * 2**20
"""Bytes that a worker holds before it decodes anything."""

ENOUGH: Final = 500
"""Pictures after which a worker is replaced: an attacker who took one over has it no longer."""

OFTEN: Final = 10
OFTEN_WITHIN: Final = 600.0  # seconds


class Decoders:
    """Decodes pictures in workers; several threads may ask at once.

    Attributes:
        memory: bytes that decoding may take in each worker.
        seconds: of one core that a picture may take.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics, template: Template | None = None) -> None:
        """Starts nothing yet.

        Args:
            settings: how many workers, and what they may take.
            metrics: where those that ended with a picture are counted.
            template: what workers are forked from; by default a process of its own.
        """
        memory = settings.decode_memory // settings.workers
        workers = min(settings.threads, max(1, memory // LEAST))
        if workers < settings.threads:
            log.warning(
                "%d pictures are decoded at once, not %d: DERMFED_SERVE_DECODE_MEMORY is enough for no more",
                workers,
                settings.threads,
            )
        self.memory = memory // workers - OWN
        self.seconds = settings.decode_seconds
        self._own = template is None
        self._template = template or Template()
        self._metrics = metrics
        self._free = threading.Semaphore(workers)
        # The one that has waited longest is next: so each is looked at, and one that ended is noticed.
        self._idle: deque[Decoder] = deque()
        self._busy: set[Decoder] = set()
        self._lock = threading.Lock()
        self._ended: deque[float] = deque(maxlen=OFTEN)
        self._closed = False

    def start(self) -> None:
        """Starts the process that workers are forked from; the first picture waits for it."""
        try:
            self._template.start()
        except NoTemplateError as error:
            log.error("%s; it is tried again with the next picture", error)  # noqa: TRY400

    def wait(self) -> None:
        """Waits until pictures can be decoded, and logs where decoders may make any system call."""
        try:
            missing = self._template.ready()
        except NoTemplateError as error:
            log.error("%s; it is tried again with the next picture", error)  # noqa: TRY400
            return
        if missing:
            log.error(
                "decoders run without a filter of system calls: %s. One that a picture takes over could "
                "open files and connections of this user; limits on time and memory hold all the same",
                missing,
            )

    def close(self) -> None:
        """Ends all workers, and with them what is being decoded."""
        with self._lock:
            self._closed = True
            idle, busy = [*self._idle], [*self._busy]
            self._idle.clear()
        for decoder in idle:
            decoder.close()
        for decoder in busy:
            decoder.kill()
        if self._own:
            self._template.close()

    @property
    def health_issues(self) -> list[str]:
        """What an operator has to know of the decoders, one sentence each."""
        ended = self._ended
        if len(ended) < OFTEN or time.monotonic() - ended[0] > OFTEN_WITHIN:
            return []
        return [
            f"decoders ended {OFTEN} times within {OFTEN_WITHIN / 60:.0f} minutes: somebody may send "
            "pictures that are made to stop the service. Each was refused; look at "
            "dermfed_decoders_killed_total, and in the log for who sends them"
        ]

    def decode(self, content: bytes, rule: PictureRule) -> DecodedPicture:
        """Decodes a picture; blocks until it is done or refused.

        Args:
            content: its bytes.
            rule: the picture rule, which says how.

        Raises:
            PictureError: it cannot be decoded, as in `registry.bundle.pictures.rule.decode_picture`.
            PictureTooCostly: it takes too much time or memory, or ended its worker.
            NoDecoder: no worker can be forked.
        """
        try:
            answer, pixels = self._ask(content, rule)
        except NoTemplateError as error:
            log.error("no picture is decoded: %s", error)  # noqa: TRY400
            raise NoDecoder(
                "no process can be started to decode the picture in; try again",
                {"Retry-After": "5"},
            ) from error
        except DecoderEnded as ended:
            raise self._too_costly(ended.reason, content) from ended
        if isinstance(answer, Pixels):
            assert pixels is not None
            why = answer.unused_profile
            return DecodedPicture(answer.width, answer.height, pixels, why, answer.on_its_side)
        if answer.error == "MemoryError":
            raise self._too_costly("memory", content)
        kind: type[errors.PictureError] = getattr(errors, answer.error)
        raise kind(answer.said)

    def _ask(self, content: bytes, rule: PictureRule) -> tuple[Pixels | Refused, NDArray[np.uint8] | None]:
        """Asks a worker, once one is free; returns its answer, and pixels if it has any.

        Raises:
            DecoderEnded: the worker ended with the picture.
            NoTemplateError: no worker can be forked.
        """
        with self._free:
            decoder = self._take()
            keep = False
            try:
                answer = decoder.ask(Question(rule.model_dump_json().encode(), content), self.seconds)
                found = decoder.pixels(rule.size) if isinstance(answer, Pixels) else None
                decoder.forget()
                full = isinstance(answer, Refused) and answer.error == "MemoryError"
                keep = decoder.questions < ENOUGH and not full
            finally:
                self._give(decoder, keep=keep)
        return answer, found

    def _take(self) -> Decoder:
        while True:
            with self._lock:
                if self._closed:
                    raise DecoderEnded("crash")
                decoder = self._idle.popleft() if self._idle else None
            if decoder is None:
                decoder = Decoder(self._template, self.memory)
            elif not decoder.lives:
                decoder.close()
                continue
            with self._lock:
                self._busy.add(decoder)
            return decoder

    def _give(self, decoder: Decoder, *, keep: bool) -> None:
        with self._lock:
            self._busy.discard(decoder)
            if keep and not self._closed:
                self._idle.append(decoder)
                return
        decoder.close()

    def _too_costly(self, reason: Reason, content: bytes) -> PictureTooCostly:
        """Counts a worker that ended with a picture, unless the service ended it; returns the refusal."""
        if not self._closed:
            self._metrics.decoder_killed(reason)
            self._ended.append(time.monotonic())
            log.warning("a decoder ended with a picture of %d bytes: %s", len(content), reason)
        what = {
            "time": f"took longer than {self.seconds:g} seconds of a core",
            "memory": f"took more memory than the {self.memory / 2**20:,.0f} MiB that are given",
            "crash": "ended the decoder",
        }
        return PictureTooCostly(
            f"decoding the picture {what[reason]}; open it elsewhere and save it anew as a JPEG, or send a "
            "smaller copy"
        )
