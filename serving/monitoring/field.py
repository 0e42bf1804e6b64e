"""Figures of the field: what became of the patients whose answers were kept, for the operator and Prometheus.

One process of the service looks at them every ten minutes, and all tell what it found. The figures are in a
file that all workers share, or in this process where there is one. Whoever finds them too old, and nobody at
it, computes them: outcomes are read once for that, and of answers their counts. A process that dies at it
leaves no trace but a lock that its end has released.
"""

import contextlib
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from pydantic import BaseModel, ConfigDict, ValidationError

from registry.errors import RegistryError
from registry.outcomes.alarms import Monitoring
from registry.outcomes.metrics import Share, SubgroupReport


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(_Told):
    """A share with its 95 % interval; `value` is None where nothing is known of it."""

    value: float | None
    low: float
    high: float


class FieldRow(_Told):
    """One version and one subgroup that it answered: what others than the database's owner may see.

    See `released_report`; where metrics are withheld, `malignant` is None too.
    """

    model: str
    version: int
    made_for: str
    subgroup: str
    answered: int
    outcomes: int
    malignant: int | None
    reported: float
    seen_sensitivity: Figure
    sensitivity: Figure
    seen_specificity: Figure
    specificity: Figure
    coverage: Figure


class OpenAlarm(_Told):
    """An alarm that is open: its number in history, None of a new one; and what it says."""

    model: str
    version: int
    number: int | None
    said: str


class FieldView(_Told):
    """What the last look has found.

    Attributes:
        tried: when it was.
        looked: when figures could be computed last; None where they never could.
        models: of which.
        rows, alarms: what was found then.
        issues: why they could not be computed at the last look, a sentence for each model.
    """

    tried: datetime
    looked: datetime | None = None
    models: tuple[str, ...] = ()
    rows: tuple[FieldRow, ...] = ()
    alarms: tuple[OpenAlarm, ...] = ()
    issues: tuple[str, ...] = ()


def rows_of(model: str, released: Sequence[SubgroupReport]) -> Sequence[FieldRow]:
    """The released metrics of a model."""
    return [_row(model, one) for one in released]


def alarms_in(model: str, found: Monitoring) -> Sequence[OpenAlarm]:
    """The open alarms of a model."""
    return [
        OpenAlarm(model=model, version=one.version, number=one.number, said=one.said) for one in found.open
    ]


def _row(model: str, one: SubgroupReport) -> FieldRow:
    of = one.metrics
    return FieldRow(
        model=model,
        version=one.version,
        made_for=one.made_for,
        subgroup=one.subgroup,
        answered=one.answered,
        outcomes=one.outcomes,
        malignant=one.malignant,
        reported=one.reported,
        seen_sensitivity=_figure(of.sensitivity.seen if of else None),
        sensitivity=_figure(of.sensitivity.corrected if of else None),
        seen_specificity=_figure(of.specificity.seen if of else None),
        specificity=_figure(of.specificity.corrected if of else None),
        coverage=_figure(of.coverage.seen if of else None),
    )


def _figure(share: Share | None) -> Figure:
    if share is None:
        return Figure(value=None, low=0.0, high=1.0)
    return Figure(value=share.value, low=share.interval[0], high=share.interval[1])


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


_WHO = ("model", "version", "subgroup")
_SHARES: Final = {
    "sensitivity": "Of malignant lesions in the field, the share above the working point",
    "specificity": "Of other lesions in the field, the share below the working point",
    "coverage": "How often the prediction set held what it was, among the followed up",
}
_COUNTS: Final = {
    "answers": "Answers that were kept",
    "outcomes": "Answers whose outcome is known",
    "malignant_outcomes": "Malignant ones of these",
    "reported": "The share of answers that were reported, neither referred nor to be taken again",
}
_OF: Final = {"answers": "answered", "malignant_outcomes": "malignant"}


def field_metrics(view: FieldView | None) -> Iterable[Metric]:
    """The metrics of the last look; none before the first that succeeded."""
    if view is None or view.looked is None:
        return
    for name, what in _SHARES.items():
        family = GaugeMetricFamily(f"dermfed_field_{name}", what, labels=[*_WHO, "figure", "end"])
        for row in view.rows:
            for kind, figure in _kinds(row, name):
                for end, value in _ends(figure):
                    family.add_metric([*_key(row), kind, end], value)
        yield family
    for name, what in _COUNTS.items():
        family = GaugeMetricFamily(f"dermfed_field_{name}", what, labels=_WHO)
        for row in view.rows:
            if (count := getattr(row, _OF.get(name, name))) is not None:
                family.add_metric(_key(row), float(count))
        yield family
    alarms = GaugeMetricFamily(
        "dermfed_open_alarms", "Promises broken in the field, not closed", labels=["model"]
    )
    open_ = Counter(one.model for one in view.alarms)
    for model in view.models:
        alarms.add_metric([model], open_[model])
    yield alarms
    looked = GaugeMetricFamily("dermfed_field_looked_seconds", "When the field was looked at last, Unix time")
    looked.add_metric([], view.looked.timestamp())
    yield looked


def _key(row: FieldRow) -> list[str]:
    return [row.model, str(row.version), row.subgroup]


def _kinds(row: FieldRow, name: str) -> Iterator[tuple[str, Figure]]:
    if name == "coverage":
        yield "seen", row.coverage
        return
    yield "seen", getattr(row, f"seen_{name}")
    yield "corrected", getattr(row, name)


def _ends(figure: Figure) -> Iterator[tuple[str, float]]:
    """The ends of the interval, and the figure itself where it is known."""
    if figure.value is not None:
        yield "point", figure.value
    yield "low", figure.low
    yield "high", figure.high
