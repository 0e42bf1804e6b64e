"""A lane: so many workers, forked when they are needed, and replaced when they ended or have done enough."""

import threading
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.pictures.rule import PictureRule
from serving.decoding.decoder import Decoder, DecoderEnded
from serving.decoding.forking import Template
from serving.decoding.wire import Answer, Pixels, Question, Refused

ENOUGH: Final = 500
"""Pictures after which a worker is replaced: whoever took one over has it no longer."""


class Lane:
    """Workers with the same limits.

    Attributes:
        memory: bytes that decoding may take in each.
        seconds: of one core that a picture may take.
    """

    def __init__(self, template: Template, workers: int, memory: int, seconds: float) -> None:
        """Forks none yet."""
        self.memory = memory
        self.seconds = seconds
        self._template = template
        self._free = threading.Semaphore(workers)
        # The one that has waited longest is next: so each is looked at, and one that ended is noticed.
        self._idle: deque[Decoder] = deque()
        self._busy: set[Decoder] = set()
        self._closed = False
        self._lock = threading.Lock()

    def ask(
        self, content: bytes, rule: PictureRule, seconds: float
    ) -> tuple[Answer, NDArray[np.uint8] | None]:
        """Asks a worker to decode a picture, once one is free; returns its answer, and pixels if it has any.

        Args:
            content: the picture.
            rule: its picture rule.
            seconds: that decoding may be thought to take by the header alone.

        Raises:
            DecoderEnded: the worker ended with it.
            NoTemplateError: no worker can be forked.
        """
        question = Question(rule.model_dump_json().encode(), content, seconds, self.memory)
        with self._free:
            decoder = self._take()
            keep = False
            try:
                answer = decoder.ask(question, self.seconds)
                found = decoder.pixels(rule.size) if isinstance(answer, Pixels) else None
                decoder.forget()
                full = isinstance(answer, Refused) and answer.error == "MemoryError"
                keep = decoder.questions < ENOUGH and not full
            finally:
                self._give(decoder, keep=keep)
        return answer, found

    def close(self) -> None:
        """Ends the workers; whoever waits for one is told that it ended."""
        with self._lock:
            self._closed = True
            idle, busy = [*self._idle], [*self._busy]
            self._idle.clear()
        for decoder in idle:
            decoder.close()
        for decoder in busy:
            decoder.kill()

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
