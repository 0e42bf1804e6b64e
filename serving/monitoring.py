"""What is looked at when an answer has been sent: drift, and the candidate beside production."""

import logging

from starlette.background import BackgroundTask

from registry.bundle.graph import Outputs
from registry.bundle.schema import GLOBAL
from serving.drift.counting import DriftCounters, subgroup_of
from serving.drift.later import CountedLater
from serving.drift.table import DriftRow, decisions, drift_metrics, drift_table
from serving.live import Live, LoadedRelease, Source
from serving.metrics import Metrics
from serving.parameters import Parameters
from serving.predictor import Decoded, LoadedVersion
from serving.schemas import Diagnosis
from serving.settings import ServeSettings
from serving.shadow.comparing import Answered, Shadow
from serving.shadow.counting import ShadowCounters
from serving.shadow.table import ShadowRow, shadow_table

log = logging.getLogger("dermfed.serve")


class Monitoring:
    """Watches what is answered, while the service runs."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        """Counts nothing yet."""
        self._settings = settings
        self._metrics = metrics
        self._drift = DriftCounters(metrics)
        self._comparisons = ShadowCounters(metrics)
        self._live: Live | None = None
        self._counting: CountedLater | None = None
        self._shadow: Shadow | None = None
        metrics.compute(lambda totals: drift_metrics(totals, self._served()))

    def watch(self, source: Source, live: Live) -> None:
        """Knows from now on what is served, and follows the candidate where there is an alias for one."""
        self._live = live
        self._counting = CountedLater(self._drift)
        if self._settings.shadow_alias is not None:
            self._shadow = Shadow(source, self._settings, self._metrics, self._comparisons, live.loader)

    def close(self) -> None:
        """Ends what `watch` began."""
        shadow, counting = self._shadow, self._counting
        self._shadow = self._counting = self._live = None
        if shadow is not None:
            shadow.close()
        if counting is not None:
            counting.close()

    def afterwards(
        self,
        release: LoadedRelease,
        loaded: LoadedVersion,
        parameters: Parameters,
        content: bytes,
        decoded: Decoded,
        outputs: Outputs,
        diagnosis: Diagnosis,
    ) -> BackgroundTask:
        """What is to be done with an answer once it has been sent; nothing that goes wrong in it is told.

        Args:
            release: of which the version is.
            loaded: the version that answered.
            parameters: what the request declared.
            content: the bytes that were sent.
            decoded: what the version was shown.
            outputs: what it said, as a batch of one.
            diagnosis: the answer.
        """
        everybody = release.versions[GLOBAL].manifest
        subgroup = subgroup_of(release.subgroups, everybody, parameters.skin_tone, parameters.skin_tone_scale)
        answered = Answered(loaded, subgroup, parameters, content, decoded, diagnosis)
        return BackgroundTask(self._look, answered, outputs)

    def troubles(self) -> list[str]:
        """What keeps a candidate from being compared; no reason not to answer."""
        return self._shadow.troubles() if self._shadow else []

    def drift(self) -> list[DriftRow]:
        """How far what came in is from what the versions were tested on."""
        return drift_table(self._metrics.totals(), self._served())

    def decisions(self) -> dict[tuple[str, int, str], dict[str, int]]:
        """What was decided how often, by model, version and subgroup of the declared tone."""
        return decisions(self._metrics.totals(), self._served())

    def shadow(self) -> list[ShadowRow]:
        """How candidates compare with what is served; empty where none is followed."""
        candidates = self._shadow.candidates.values() if self._shadow else []
        return shadow_table(self._metrics.totals(), self._served(), candidates)

    def _served(self) -> list[LoadedRelease]:
        return list(self._live.state.releases.values()) if self._live else []

    async def _look(self, answered: Answered, outputs: Outputs) -> None:
        try:
            self._drift.decided(
                answered.loaded, answered.subgroup, answered.diagnosis.decision, answered.decoded.quality
            )
            if self._counting is not None:
                self._counting.put(
                    answered.loaded, answered.subgroup, outputs.probabilities[0], outputs.embedding[0]
                )
            if self._shadow is not None:
                self._shadow.offer(answered)
        except Exception:
            # The answer is out; whatever it is, it is ours to look at and nobody else's.
            log.exception("%s could not be looked at afterwards", answered.diagnosis.id)
