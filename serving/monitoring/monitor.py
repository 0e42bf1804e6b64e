"""Monitoring of every answer after it was sent: counted for drift, and compared with a candidate's."""

import logging
from collections.abc import Sequence
from functools import partial

from starlette.background import BackgroundTask

from registry.bundle.labels import GLOBAL
from registry.bundle.model import Outputs
from registry.outcomes.alarms import Monitoring as Monitored
from registry.outcomes.metrics import SubgroupReport, released_report
from registry.registry import Registry
from serving.inference.predictor import Decoded, LoadedVersion
from serving.metrics import Metrics
from serving.monitoring.drift import DriftCounters, DriftRow, decisions, drift_metrics, drift_table
from serving.monitoring.field import FieldLooker, FieldView, field_metrics
from serving.monitoring.outcomes import AnswerKeeper, kept_answer
from serving.protocol.parameters import Parameters, subgroup_of
from serving.protocol.schemas import Diagnosis
from serving.releases.current_release import CurrentRelease
from serving.releases.loading import LoadedRelease
from serving.releases.rollout import AnsweredPicture, Rollout, ShadowRow, shadow_table

log = logging.getLogger("dermfed.serve")


class Monitoring:
    """Counts answers for drift and compares candidates, in the background while the service runs."""

    def __init__(
        self,
        metrics: Metrics,
        answers: AnswerKeeper | None,
        source: Registry,
        current_release: CurrentRelease,
        canaries: Rollout,
    ) -> None:
        """Registers the metrics, and starts looking at the field.

        Args:
            metrics: of the service.
            answers: keeps those that may be judged; None where none are.
            source: the registry.
            current_release: what is served.
            canaries: what gets a share next to it, or is compared with it.
        """
        self._metrics, self._answers = metrics, answers
        self._current_release, self._canaries = current_release, canaries
        self._drift = DriftCounters(metrics)
        self._field: FieldLooker | None = None
        if answers is not None:
            self._field = FieldLooker(self._models, partial(_look, source, answers))
            self._field.start()
        metrics.add_computed(lambda _: field_metrics(self.field()))
        metrics.add_computed(lambda totals: drift_metrics(totals, self._served()))

    def close(self) -> None:
        """Ends what was started."""
        if self._field is not None:
            self._field.close()

    def background_task(
        self,
        release: LoadedRelease,
        loaded: LoadedVersion,
        parameters: Parameters,
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
            decoded: the pictures as the version's model saw them.
            outputs: the model's outputs, as a batch of one.
            diagnosis: the answer.
            key: the id of the API key that asked.
        """
        everybody = release.versions[GLOBAL].manifest
        subgroup = subgroup_of(release.subgroups, everybody, parameters.skin_tone, parameters.skin_tone_scale)
        answered = AnsweredPicture(loaded, subgroup, parameters, decoded, diagnosis)
        return BackgroundTask(self._observe, answered, outputs, release, key)

    def health_issues(self) -> list[str]:
        """What keeps the field from being looked at."""
        return list(view.issues) if (view := self.field()) else []

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
        mirrored = self._canaries.mirrored().values()
        return shadow_table(self._metrics.totals(), self._served(), (loaded for _, loaded in mirrored))

    def _models(self) -> list[str]:
        return sorted(self._current_release.served.releases)

    def _served(self) -> list[LoadedRelease]:
        """The releases that answer, those of canaries last; a version may be in both."""
        trying = self._canaries.answering().values()
        return [*self._current_release.served.releases.values(), *(loaded for _, loaded in trying)]

    async def _observe(
        self, answered: AnsweredPicture, outputs: Outputs, release: LoadedRelease, key: str | None
    ) -> None:
        try:
            if self._answers is not None:
                self._answers.put(kept_answer(answered, release, key))
            diagnosis = answered.diagnosis
            loaded, subgroup = answered.loaded, answered.subgroup
            quality = answered.decoded.quality
            self._drift.count_decision(loaded, subgroup, diagnosis.decision, diagnosis.triage, quality)
            self._drift.count(loaded, subgroup, outputs.probabilities[0], outputs.embedding[0])
            await self._canaries.compare(answered)
        except Exception:
            # The answer is out; whatever it is, it is ours to look at and nobody else's.
            log.exception("%s could not be looked at afterwards", answered.diagnosis.id)


def _look(source: Registry, answers: AnswerKeeper, model: str) -> tuple[Monitored, Sequence[SubgroupReport]]:
    """A look at a model, before history names its database of outcomes too, and what others may see of it."""
    store = answers.opened()
    return source.field(model, store), released_report(store, model)
