"""Looks at the field every ten minutes: one process of the service computes, and all tell what it found.

The figures are in a file that all workers share, or in this process where there is one. Whoever finds them
too old, and nobody at it, computes them: outcomes are read once for that, and of answers their counts. A
process that dies at it leaves no trace but a lock that its end has released.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from registry.errors import RegistryError
from registry.outcomes.alarms import Monitoring
from registry.outcomes.metrics import SubgroupReport
from serving.monitoring.outcomes.field_view import FieldView, alarms_in, rows_of

log = logging.getLogger("dermfed.serve")

OLD: Final = timedelta(minutes=10)
"""How old figures may become before they are computed anew."""

AGAIN: Final = timedelta(minutes=1)
"""After how long it is tried again where they could not be computed."""

WAKES_SECONDS: Final = 10.0
"""How often each process looks whether there are new ones."""

_FILE: Final = "field.json"


class FieldLooker:
    """A thread that has figures of the field computed, by this process or another one.

    Attributes:
        view: the newest; None before the first look.
    """

    view: FieldView | None = None

    def __init__(
        self,
        folder: Path | None,
        models: Callable[[], Sequence[str]],
        look: Callable[[str], tuple[Monitoring, Sequence[SubgroupReport]]],
    ) -> None:
        """Starts nothing yet.

        Args:
            folder: which all processes of the service share; None where there is one process.
            models: which are served now.
            look: looks at a model, and says what others may see of it; blocks.
        """
        self._folder = folder
        self._models = models
        self._look = look
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._why: tuple[str, ...] = ()

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="field", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; one that is computing ends with the process."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)

    @property
    def health_issues(self) -> list[str]:
        """Why figures of the field cannot be computed; empty where they can."""
        return [] if self.view is None else list(self.view.issues)

    def look_if_due(self) -> None:
        """Takes what another process has found; computes it where that is too old and nobody is at it."""
        models = tuple(sorted(self._models()))
        self.view = self._shared() or self.view
        if not _due(self.view, models):
            return
        with self._alone() as alone:
            if not alone:
                return
            self.view = self._shared() or self.view
            if _due(self.view, models):
                self.view = self._computed(models)
                self._share(self.view)

    def _computed(self, models: tuple[str, ...]) -> FieldView:
        now, before = datetime.now(UTC), self.view
        rows, alarms, issues = [], [], []
        for model in models:
            try:
                found, released = self._look(model)
                told = rows_of(model, released)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
                issues.append(f"figures of {model} in the field cannot be computed: {_why(error)}")
                if before is not None:
                    rows += [one for one in before.rows if one.model == model]
                    alarms += [one for one in before.alarms if one.model == model]
            else:
                rows += told
                alarms += alarms_in(model, found)
        if (why := tuple(issues)) != self._why:
            for one in why:
                log.error("%s", one)
        self._why = why
        looked = now if not issues else before and before.looked
        return FieldView(
            tried=now, looked=looked, models=models, rows=tuple(rows), alarms=tuple(alarms), issues=why
        )

    def _shared(self) -> FieldView | None:
        if self._folder is None:
            return None
        try:
            return FieldView.model_validate_json((self._folder / _FILE).read_bytes())
        except (OSError, ValidationError):
            return None

    def _share(self, view: FieldView) -> None:
        if self._folder is None:
            return
        new = self._folder / f"{_FILE}.{os.getpid()}"
        with contextlib.suppress(OSError):  # then each process computes its own
            new.write_text(view.model_dump_json())
            new.replace(self._folder / _FILE)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether no other process of the service computes; within it, none begins."""
        if self._folder is None:
            yield True
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            yield True
            return
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
        finally:
            os.close(lock)

    def _run(self) -> None:
        while True:
            try:
                self.look_if_due()
            except Exception:
                log.exception("the field could not be looked at")
            if self._stop.wait(WAKES_SECONDS):
                return


def _due(view: FieldView | None, models: tuple[str, ...]) -> bool:
    if view is None or view.models != models:
        return True
    age = datetime.now(UTC) - view.tried
    return not timedelta(0) <= age < (AGAIN if view.issues else OLD)


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, RegistryError) else type(error).__name__
