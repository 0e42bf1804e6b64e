"""Keeps answers so that their outcomes can be given, where an operator names a database for them.

A thread writes the answers in batches; no response waits for it. While the database cannot be written, a
limited number of answers is queued; further ones are lost, and the loss is counted and reported.
"""

import logging
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from registry.bundle.labels import GLOBAL
from registry.environment import masked
from registry.errors import DatabaseError, OtherSchema, RegistryError
from registry.outcomes.store import (
    UNKNOWN,
    Answering,
    KeptAnswer,
    Outcome,
    OutcomeRefused,
    OutcomeStore,
    SeenAnswer,
    Side,
    Taken,
)
from serving.metrics import Metrics
from serving.protocol.schemas import Diagnosis
from serving.releases.loading import LoadedRelease
from serving.releases.rollout import AnsweredPicture


def kept_answer(answered: AnsweredPicture, release: LoadedRelease, key: str | None) -> KeptAnswer:
    """The record of an answer that is stored.

    Args:
        answered: the answer.
        release: of the version that gave it. The subgroup of the declared tone is stored if the release has a
            version for it or the global model was tested on it; any other tone is not.
        key: the id of the caller's API key.
    """
    version, diagnosis = answered.loaded.version, answered.diagnosis
    named = {*release.subgroups, *(one.name for one in release.versions[GLOBAL].manifest.named_subgroups)}
    answering = Answering(
        version.model,
        version.number,
        version.subgroup.name,
        answered.subgroup if answered.subgroup in named else UNKNOWN,
        tuple((one.code, one.malignancy == "malignant") for one in answered.loaded.manifest.labels),
    )
    return KeptAnswer(
        diagnosis.id,
        datetime.now(UTC).date(),
        answering,
        key,
        _side(diagnosis),
        diagnosis.decision,
        diagnosis.findings[0].code,
        frozenset(diagnosis.prediction_set.codes),
        diagnosis.triage,
    )


def _side(diagnosis: Diagnosis) -> Side:
    """Of the working point; without one, whether the answer is malignant."""
    if diagnosis.malignancy.above is not None:
        return "above" if diagnosis.malignancy.above else "below"
    if diagnosis.malignancy.probability is None:
        return "none"
    return "above" if diagnosis.findings[0].malignancy == "malignant" else "below"


log = logging.getLogger("dermfed.serve")

SECONDS: Final = 0.2
"""How long an answer waits for others."""

TOGETHER: Final = 500
"""Answers that are written at once."""

WAITING: Final = 20_000
"""How many may wait for a database that does not take them."""

_AGAIN_SECONDS: Final = 2.0
_CLOSING_SECONDS: Final = 5.0


class AnswerKeeper:
    """A queue of answers, and the thread that writes them."""

    def __init__(self, url: str, metrics: Metrics) -> None:
        """Starts nothing yet.

        Args:
            url: of the database of outcomes.
            metrics: where lost answers are counted.
        """
        self._url = url
        self._metrics = metrics
        self._answers: deque[KeptAnswer] = deque()
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._store: OutcomeStore | None = None
        self._lost = 0
        self._why = ""

    def start(self) -> None:
        """Starts the thread; a database that cannot be opened now is tried again.

        Raises:
            InvalidName, OtherSchema: it never can be.
        """
        try:
            self.opened()
        except OtherSchema:
            raise
        except DatabaseError as error:
            self._tell(error)
        self._thread = threading.Thread(target=self._run, name="outcomes", daemon=True)
        self._thread.start()

    @property
    def health_issues(self) -> list[str]:
        """Why answers are not kept; empty where they are."""
        lost = f", and {self._lost:,} are lost" if self._lost else ""
        if not self._why:
            return [f"answers could not be kept for their outcomes{lost}: the log says why"] if lost else []
        return [
            f"{len(self._answers):,} answers wait to be kept for their outcomes{lost}: the database "
            f"{masked(self._url)} does not take them ({self._why})"
        ]

    def put(self, answer: KeptAnswer) -> None:
        """Queues an answer."""
        if len(self._answers) >= WAITING:
            self._lose()
            return
        self._answers.append(answer)

    def give(self, outcome: Outcome, key: str | None) -> Taken | OutcomeRefused:
        """Takes an outcome, perhaps of an answer that waits; blocks. Arguments are as of `OutcomeStore.give`.

        Raises:
            RegistryError: it cannot be written.
        """
        self.flush()
        (told,) = self.opened().give([outcome], key)
        return told

    def look(self, answer: str, key: str | None) -> SeenAnswer | None:
        """What is stored of an answer, perhaps of one that waits; blocks. See `OutcomeStore.answer`.

        Raises:
            RegistryError: it cannot be read.
        """
        self.flush()
        return self.opened().answer(answer, key)

    def flush(self) -> None:
        """Writes what waits; blocks.

        Raises:
            RegistryError: it cannot be written; it goes on waiting.
        """
        with self._writing:
            store = self.opened()
            while self._answers:
                together = [self._answers[place] for place in range(min(TOGETHER, len(self._answers)))]
                self._record(store, together)
                for _ in together:
                    self._answers.popleft()
        self._why = ""

    def _record(self, store: OutcomeStore, together: list[KeptAnswer]) -> None:
        """Writes answers, and gives up those that cannot be written where others can.

        Raises:
            Exception: none can be written.
        """
        try:
            store.record(together)
            return
        except Exception:
            if len(together) == 1:
                raise
        failed: list[Exception] = []
        for one in together:
            try:
                store.record([one])
            except Exception as error:  # noqa: BLE001 - told below
                failed.append(error)
        if len(failed) == len(together):
            raise failed[0]
        for why in map(why_of, failed):
            self._lose()
            log.error("an answer cannot be kept for its outcome and is given up: %s", why)

    def opened(self) -> OutcomeStore:
        """The database of outcomes; blocks.

        Raises:
            RegistryError: it cannot be opened.
        """
        with self._opening:
            if self._store is None:
                self._store = OutcomeStore.open(self._url)
            return self._store

    def _lose(self) -> None:
        self._lost += 1
        self._metrics.answers_lost.inc()

    def _tell(self, error: Exception) -> None:
        if (why := why_of(error)) != self._why:
            log.error("answers cannot be kept for their outcomes: %s", why)
        self._why = why

    def close(self) -> None:
        """Writes what waits, as far as a few seconds allow, and ends the thread."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(_CLOSING_SECONDS)
        if left := len(self._answers):
            log.error(
                "%d answers were not kept for their outcomes: %s", left, self._why or "no time was left"
            )
            for _ in range(left):
                self._lose()
        if not self._thread.is_alive() and self._store is not None:
            self._store.close()

    def _run(self) -> None:
        pause = SECONDS
        while not self._stop.wait(pause):
            pause = SECONDS if self._flushed() else _AGAIN_SECONDS
        with suppress(RegistryError):
            self.flush()

    def _flushed(self) -> bool:
        try:
            self.flush()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next try may succeed
            self._tell(error)
            return False
        return True


def why_of(error: Exception) -> str:
    """What is reported of an error: of a foreign one only its type, for its text may quote a row."""
    return str(error) if isinstance(error, RegistryError) else type(error).__name__
