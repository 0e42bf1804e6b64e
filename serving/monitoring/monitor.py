"""Monitoring of every answer after it was sent: counted for drift, and compared with a candidate's."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from starlette.background import BackgroundTask

from registry.bundle.labels import GLOBAL
from registry.bundle.model import Outputs
from registry.outcomes.alarms import Monitoring as Monitored
from registry.outcomes.metrics import SubgroupReport, released_report
from serving.decoding.messages import Decode, decode_here
from serving.inference.predictor import Decoded, LoadedVersion
from serving.metrics.metrics import Metrics
from serving.monitoring.drift.count_later import BackgroundDriftCounter
from serving.monitoring.drift.counting import DriftCounters
from serving.monitoring.drift.table import DriftRow, decisions, drift_metrics, drift_table
from serving.monitoring.outcomes.field_metrics import field_metrics
from serving.monitoring.outcomes.field_view import FieldView
from serving.monitoring.outcomes.keeping import AnswerKeeper
from serving.monitoring.outcomes.kept import kept_answer
from serving.monitoring.outcomes.looking import FieldLooker
from serving.monitoring.shadow.comparing import AnsweredPicture, ShadowComparison
from serving.monitoring.shadow.counting import ShadowCounters
from serving.monitoring.shadow.table import ShadowRow, shadow_table
from serving.protocol.parameters import Parameters
from serving.protocol.routing import subgroup_of
from serving.protocol.schemas import Diagnosis
from serving.releases.canary_releases import CanaryReleases
from serving.releases.current_release import CurrentRelease, LoadedRelease, RegistrySource
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")


class Monitoring:
    """Counts answers for drift and compares candidates, in the background while the service runs."""

    def __init__(
        self,
        settings: ServeSettings,
        metrics: Metrics,
        answers: AnswerKeeper | None = None,
        folder: Path | None = None,
    ) -> None:
        """Registers the metrics; `start` starts the threads.

        Args:
            settings: the service's.
            metrics: its metrics.
            answers: keeps those that may be judged; by default none are.
            folder: which all workers share, for figures of the field.
        """
        self._settings = settings
        self._metrics = metrics
        self._answers = answers
        self._drift = DriftCounters(metrics)
        self._comparisons = ShadowCounters(metrics)
        self._current_release: CurrentRelease | None = None
        self._canaries: CanaryReleases | None = None
        self._drift_counter: BackgroundDriftCounter | None = None
        self._shadow: ShadowComparison | None = None
        self._folder = folder
        self._field: FieldLooker | None = None
        metrics.add_computed(lambda _: field_metrics(self.field()))
        metrics.add_computed(lambda totals: drift_metrics(totals, self._served()))

    def start(
        self,
        source: RegistrySource,
        current_release: CurrentRelease,
        canaries: CanaryReleases,
        decode_one: Decode = decode_here,
    ) -> None:
        """Starts counting drift, and comparing mirrored canaries.

        Args:
            source: the registry.
            current_release: what is served.
            canaries: what gets a share next to it.
            decode_one: decodes pictures for candidates with another picture rule; by default in this process.
        """
        self._current_release, self._canaries = current_release, canaries
        self._drift_counter = BackgroundDriftCounter(self._drift)
        self._shadow = ShadowComparison(
            canaries, self._settings, self._metrics, self._comparisons, decode_one
        )
        look: Callable[..., Monitored] | None = getattr(source, "field", None)  # not every source can tell
        if self._answers is not None and look is not None:
            self._field = FieldLooker(self._folder, self._models, partial(_look, look, self._answers))
            self._field.start()

    def close(self) -> None:
        """Ends what `start` began."""
        shadow, drift_counter, field = self._shadow, self._drift_counter, self._field
        self._shadow = self._drift_counter = self._current_release = self._canaries = self._field = None
        if field is not None:
            field.close()
        if shadow is not None:
            shadow.close()
        if drift_counter is not None:
            drift_counter.close()

    def background_task(
        self,
        release: LoadedRelease,
        loaded: LoadedVersion,
        parameters: Parameters,
        contents: Sequence[bytes],
        decoded: Decoded,
        outputs: Outputs,
        diagnosis: Diagnosis,
        key: str | None,
    ) -> BackgroundTask:
        """The background task that monitors an answer once it has been sent; its failures are only logged.

        Args:
            release: the release of that version.
            loaded: the version that answered.
            parameters: what the request declared.
            contents: the bytes of the pictures that were sent.
            decoded: them as the version's model saw it.
            outputs: the model's outputs, as a batch of one.
            diagnosis: the answer.
            key: the id of the API key that asked.
        """
        everybody = release.versions[GLOBAL].manifest
        subgroup = subgroup_of(release.subgroups, everybody, parameters.skin_tone, parameters.skin_tone_scale)
        answered = AnsweredPicture(loaded, subgroup, parameters, contents, decoded, diagnosis)
        return BackgroundTask(self._observe, answered, outputs, release, key)

    def health_issues(self) -> list[str]:
        """What keeps the field from being looked at."""
        return list(self._field.health_issues) if self._field else []

    def field(self) -> FieldView | None:
        """What the last look at the field has found; None before it, and where no answers are kept."""
        return self._field.view if self._field else None

    def drift(self) -> list[DriftRow]:
        """The drift table of the versions that are served."""
        return drift_table(self._metrics.totals(), self._served())

    def decisions(self) -> dict[tuple[str, int, str], dict[str, int]]:
        """How often each triage and decision was given, by model, version and subgroup of the tone."""
        return decisions(self._metrics.totals(), self._served())

    def shadow(self) -> list[ShadowRow]:
        """The shadow table: candidates compared with what is served; empty where there is none."""
        mirrored = self._canaries.mirrored().values() if self._canaries else ()
        return shadow_table(self._metrics.totals(), self._served(), (loaded for _, loaded in mirrored))

    def _models(self) -> list[str]:
        return [] if self._current_release is None else sorted(self._current_release.served.releases)

    def _served(self) -> list[LoadedRelease]:
        """The releases that answer, those of canaries last; a version may be in both."""
        if self._current_release is None:
            return []
        trying = self._canaries.answering().values() if self._canaries else ()
        return [*self._current_release.served.releases.values(), *(loaded for _, loaded in trying)]

    async def _observe(
        self, answered: AnsweredPicture, outputs: Outputs, release: LoadedRelease, key: str | None
    ) -> None:
        try:
            if self._answers is not None:
                self._answers.put(kept_answer(answered, release, key))
            diagnosis = answered.diagnosis
            self._drift.count_decision(
                answered.loaded,
                answered.subgroup,
                diagnosis.decision,
                diagnosis.triage,
                answered.decoded.quality,
            )
            if self._drift_counter is not None:
                self._drift_counter.put(
                    answered.loaded, answered.subgroup, outputs.probabilities[0], outputs.embedding[0]
                )
            if self._shadow is not None:
                self._shadow.submit(answered)
        except Exception:
            # The answer is out; whatever it is, it is ours to look at and nobody else's.
            log.exception("%s could not be looked at afterwards", answered.diagnosis.id)


def _look(
    look: Callable[..., Monitored], answers: AnswerKeeper, model: str
) -> tuple[Monitored, Sequence[SubgroupReport]]:
    """A look at a model, before history names its database of outcomes too, and what others may see of it."""
    store = answers.opened()
    found = look(model, store)
    return found, released_report(store, model)
