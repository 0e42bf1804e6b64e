"""The decoders of a service: one queue of pictures, shared out by API key.

Threads decode pictures and then run models; each has a worker process, as far as memory allows. The next
picture is taken from the key that has used the least worker time, and the last free worker is reserved for a
key that uses none: so a caller who sends costly pictures delays only its own requests. Where memory suffices
for one worker only, keys take turns, and a picture waits for at most one of another key.

The memory is divided among the workers for good: together they cannot take more, and none waits for
another's. A picture that takes more memory than its worker has, or more time than the settings give, is
refused, and its worker is replaced.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from registry.bundle import errors
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.messages import PIXELS, Decode, DecodedPicture, Refused
from serving.decoding.template import Decoder, DecoderEnded, NoTemplateError, Reason, Template
from serving.metrics import Metrics
from serving.protocol.problems import NoDecoder, PictureTooCostly
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

Result = TypeVar("Result")
Key = str | None

BACKGROUND: Final = ""
"""The key of pictures that no request waits for; it is no API key's."""

LEAST: Final = 512 * 2**20
"""Bytes that a worker has at least, unless it is the only one: enough for a PNG of 40 million pixels."""

OWN: Final = 32 * 2**20
"""Bytes that a worker holds before it decodes anything."""

ENOUGH: Final = 500
"""Pictures after which a worker is replaced: an attacker who took one over has it no longer."""

OFTEN: Final = 10
OFTEN_WITHIN: Final = 600.0  # seconds


@dataclass(eq=False)
class _Job:
    """What waits for a worker: `work` is given a function that decodes a picture."""

    key: Key
    work: Callable[[Decode], Any]
    result: "Future[Any]" = field(default_factory=Future)


class Decoders:
    """Decodes pictures in workers, for each key in its turn.

    Attributes:
        count: workers there are at most.
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
        self.count = min(settings.threads + 1, max(1, memory // LEAST))
        if self.count <= settings.threads:
            log.warning(
                "%d pictures are decoded at once, not %d: DERMFED_SERVE_DECODE_MEMORY is enough for no more",
                self.count,
                settings.threads + 1,
            )
        self.memory = memory // self.count - OWN
        self.seconds = settings.decode_seconds
        self._own = template is None
        self._template = template or Template()
        self._metrics = metrics
        self._waiting: list[_Job] = []
        self._held: Counter[Key] = Counter()  # workers by key
        self._used: dict[Key, float] = {}  # seconds that a key has held workers, or is taken to have
        self._threads: list[threading.Thread] = []
        self._most_threads = settings.threads + 1
        self._decoders: list[Decoder] = []
        self._idle: list[Decoder] = []
        self._shared = max(PIXELS, settings.max_bytes)
        self._changed = threading.Condition()
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
        with self._changed:
            self._closed = True
            waiting, self._waiting, idle, self._idle = self._waiting, [], self._idle, []
            decoders = [*self._decoders]
            self._changed.notify_all()
        for job in waiting:
            _refuse(job)
        for decoder in decoders:
            decoder.kill()
        for thread in self._threads:
            thread.join()
        for decoder in idle:
            self._give(decoder, keep=False)
        if self._own:
            self._template.close()

    @property
    def waiting(self) -> int:
        """How many wait for a worker."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing waits for a worker or is in one."""
        return not self._waiting and not self._held

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

    def decode(self, content: bytes, rule: PictureRule, frame: int | None = None) -> DecodedPicture:
        """Decodes a picture that no request waits for; blocks until it is done or refused.

        Raises:
            PictureError, PictureTooCostly, NoDecoder: as the function that `submit` gives.
        """
        return self.submit(lambda decode: decode(content, rule, frame), BACKGROUND).result()

    def submit(self, work: Callable[[Decode], Result], key: Key) -> "Future[Result]":
        """Does something in a thread that has a worker, when it is the key's turn.

        Args:
            work: is given a function that decodes a picture by a rule. It raises `PictureError` of one that
                cannot be decoded, `PictureTooCostly` of one that takes too much time or memory or ended its
                worker, and `NoDecoder` where no worker can be forked.
            key: the id of the API key that asks.

        Returns:
            What `work` returns or raises; cancelled before its turn, it is not done.
        """
        job = _Job(key, work)
        job.result.add_done_callback(self._forget)
        with self._changed:
            if self._closed:
                _refuse(job)
                return job.result
            if key not in self._used:
                self._used[key] = min(self._used.values(), default=0.0)
            self._waiting.append(job)
            if len(self._threads) < self._most_threads:
                self._threads.append(threading.Thread(target=self._run, name="decoding", daemon=True))
                self._threads[-1].start()
            self._changed.notify()
        return job.result

    def _forget(self, result: "Future[Any]") -> None:
        if result.cancelled():
            with self._changed:
                self._waiting = [job for job in self._waiting if job.result is not result]

    def _next(self) -> _Job | None:
        """Waits for a job; None once the decoders are closed."""
        with self._changed:
            while not self._closed:
                if job := self._choose():
                    self._waiting.remove(job)
                    self._held[job.key] += 1
                    return job
                self._changed.wait()
        return None

    def _choose(self) -> _Job | None:
        """The first job of the key that has held workers least; the last worker is for a key without one."""
        free = self.count - self._held.total()
        may = [job for job in self._waiting if free > 1 or (free and not self._held[job.key])]
        return min(may, key=lambda job: self._used[job.key], default=None)

    def _run(self) -> None:
        """The loop of every thread."""
        while (job := self._next()) is not None:
            began, result, error = time.monotonic(), None, None
            if started := job.result.set_running_or_notify_cancel():
                try:
                    result = job.work(self._decode)
                except Exception as raised:  # noqa: BLE001 - raised again for whoever waits for it
                    error = raised
            self._done(job.key, time.monotonic() - began)
            if started and error is not None:
                job.result.set_exception(error)
            elif started:
                job.result.set_result(result)
            del job, result, error  # until the next one comes, no picture is held

    def _done(self, key: Key, seconds: float) -> None:
        with self._changed:
            self._held -= Counter([key])
            self._used[key] += seconds
            active = self._held.keys() | {job.key for job in self._waiting}
            # A key that comes back has no more than what others had meanwhile, and no less.
            least = min((self._used[key] for key in active), default=float("inf"))
            self._used = {key: used for key, used in self._used.items() if key in active or used > least}
            self._changed.notify()  # this thread may run a model first

    def _decode(self, content: bytes, rule: PictureRule, frame: int | None = None) -> DecodedPicture:
        """Decodes a picture in a worker, which is replaced when it ended or has done enough."""
        decoder, keep = None, False
        try:
            decoder = self._take()
            found = decoder.ask(content, rule, self.seconds, frame)
            full = isinstance(found, Refused) and found.error == "MemoryError"
            keep = decoder.questions < ENOUGH and not full
        except NoTemplateError as error:
            log.error("no picture is decoded: %s", error)  # noqa: TRY400
            raise NoDecoder(
                "no process can be started to decode the picture in; try again", {"Retry-After": "5"}
            ) from error
        except DecoderEnded as ended:
            raise self._too_costly(ended.reason, content) from ended
        finally:
            if decoder is not None:
                self._give(decoder, keep=keep)
        if isinstance(found, DecodedPicture):
            return found
        if found.error == "MemoryError":
            raise self._too_costly("memory", content)
        kind: type[errors.PictureError] = getattr(errors, found.error)
        raise kind(found.said)

    def _take(self) -> Decoder:
        """The worker that has waited longest, so that each that ended is noticed; or a new one."""
        with self._changed:
            decoder = self._idle.pop(0) if self._idle else None
        if decoder is not None:
            if decoder.lives:
                return decoder
            self._give(decoder, keep=False)
        decoder = self._template.fork(self.memory, self._shared)
        with self._changed:
            self._decoders.append(decoder)
            closed = self._closed
        if closed:
            decoder.kill()
        return decoder

    def _give(self, decoder: Decoder, *, keep: bool) -> None:
        with self._changed:
            if keep and not self._closed:
                self._idle.append(decoder)
                return
            self._decoders.remove(decoder)
        decoder.close()

    def _too_costly(self, reason: Reason, content: bytes) -> PictureTooCostly:
        """Counts a worker that ended with a picture, unless the service ended it; returns the refusal."""
        if not self._closed:
            self._metrics.decoders_killed.labels(reason).inc()
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


def _refuse(job: _Job) -> None:
    if job.result.set_running_or_notify_cancel():
        job.result.set_exception(NoDecoder("the service is ending; ask again", {"Retry-After": "5"}))
