"""The stage `field`: how released versions do in the field, over all hospitals, from sums of their counts.

Two questions, each answered by a sum. First how many hospitals tell of each version and subgroup: one that
knows too few outcomes, or none, adds zeros. Then the sums themselves, of those that enough hospitals tell of:
a sum of one hospital among zeros would be that one's own. The correction for who is followed up is made at
each hospital (`registry.bundle.metrics.field`). No picture is looked at, and the model stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field as Setting

from registry.bundle.counts.field_counts import DIGEST
from registry.bundle.metrics.field import FieldSums, PooledFigures, pooled_figures
from training.algorithms.client import Client
from training.config import FrozenConfig
from training.federation.client.field import GIVEN, TELLING, FieldQuestion, answer_field, read_sums
from training.federation.questions import FIELD, FIELD_TELLING
from training.federation.server.ask import Traffic, ask_all, ask_sums
from training.jobs.stages.base import Stage, StageContext, StageResult
from training.messages.message import GLOBAL, Broadcast, Update, unknown_question

UNKNOWN_TONE = "unknown"
"""The subgroup of answers without a tone that a version was tested on, as the service keeps them."""


class Version(FrozenConfig):
    """A released version.

    Attributes:
        name: what it is called in the figures.
        digest: of its bundle; hospitals' registries number it differently.
    """

    name: str = Setting(min_length=1)
    digest: str = Setting(pattern=DIGEST)


class Field(Stage):
    """Figures of the field.

    Attributes:
        versions: which are asked about.
        subgroups: of the declared tones; by default the job's, and answers of unknown tone.
        files: on one machine, the counts of each client, from the job file's folder; over a network each
            hospital names its own (`dermfed-node start --field`).
    """

    summed: ClassVar[frozenset[str]] = frozenset({FIELD_TELLING, FIELD})
    passes_figures_on: ClassVar[bool] = True
    asks_exactly: ClassVar[bool] = True
    stage: Literal["field"] = "field"
    versions: tuple[Version, ...] = Setting(min_length=1)
    subgroups: tuple[str, ...] | None = None
    files: Mapping[str, str] = {}

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Ask who tells of what, then for the sums."""
        names = (*context.subgroups, UNKNOWN_TONE) if self.subgroups is None else self.subgroups
        question = FieldQuestion(
            split="field", versions=tuple(one.digest for one in self.versions), subgroups=names
        )
        traffic = Traffic()
        answers = self._ask(context, FIELD_TELLING, question, traffic)
        telling = sum(answer.tensors[TELLING].numpy() for answer in answers)
        given = sum(int(answer.tensors[GIVEN].sum()) for answer in answers)
        masks = context.job.privacy.masked_counts
        fewest = 1 if masks is None else masks.fewest
        cells = tuple((int(v), int(g)) for v, g in np.argwhere(np.asarray(telling) >= fewest))
        sums = [FieldSums.none() for _ in cells]
        if cells:
            asked = question.model_copy(update={"cells": cells})
            for answer in self._ask(context, FIELD, asked, traffic):
                told = read_sums(answer.tensors, len(cells))
                sums = [mine + more for mine, more in zip(sums, told, strict=True)]
        absent = [] if masks is not None else self._absent(answers)
        facts = {
            "field": [
                row(self.versions[v].name, names[g], int(np.asarray(telling)[v, g]), pooled_figures(found))
                for (v, g), found in zip(cells, sums, strict=True)
            ],
            "hospitals": len(context.census.all_hospitals),
            "with_outcomes": given,
            **({"without_outcomes": absent} if absent else {}),
            "not_told": [
                {"version": version.name, "subgroup": name, "hospitals": int(np.asarray(telling)[v, g])}
                for v, version in enumerate(self.versions)
                for g, name in enumerate(names)
                if (v, g) not in cells
            ],
        }
        for line in lines(facts, fewest):
            context.metrics_log.log(f"{context.key}: {line}")
        earlier = before.facts.get("by_subgroup")
        known = {"by_subgroup": earlier} if earlier is not None else {}
        return replace(before, rounds=0, traffic=traffic, facts={**known, **facts})

    def _ask(
        self, context: StageContext, ask: str, question: FieldQuestion, traffic: Traffic
    ) -> list[Update]:
        broadcasts = [
            Broadcast(client, context.key, 0, ask, GLOBAL, {}, question.model_dump(mode="json"))
            for client in context.census.all_hospitals
        ]
        masks = context.job.privacy.masked_counts
        if masks is not None:
            return ask_sums(context.engine, broadcasts, traffic, masks)
        return ask_all(context.engine, broadcasts, traffic)

    @staticmethod
    def _absent(answers: Sequence[Update]) -> list[str]:
        return [answer.client for answer in answers if not int(answer.tensors[GIVEN].sum())]

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """The client's part."""
        if broadcast.ask in (FIELD_TELLING, FIELD):
            return answer_field(broadcast, client)
        raise unknown_question(broadcast)


def row(version: str, subgroup: str, hospitals: int, figures: PooledFigures) -> dict[str, Any]:
    """The figures of one version and one subgroup, as the summary has them."""
    return {"version": version, "subgroup": subgroup, "hospitals": hospitals, **figures.to_json()}


def lines(facts: Mapping[str, Any], fewest: int) -> list[str]:
    """Who tells of what, for whoever reads the log."""
    who = f"{facts['with_outcomes']} of {facts['hospitals']} hospitals have outcomes"
    if absent := facts.get("without_outcomes"):
        who += f", not {', '.join(absent)}"
    told = [
        f"{one['version']}, {one['subgroup']}: {one['answered']:,} answers and {one['outcomes']:,} outcomes "
        f"of {one['hospitals']} hospitals"
        for one in facts["field"]
    ]
    silent = [
        f"{one['version']}, {one['subgroup']}: nothing is told; {one['hospitals']} hospitals tell of it, and "
        f"{fewest} are needed"
        for one in facts["not_told"]
    ]
    return [who, *told, *silent]
