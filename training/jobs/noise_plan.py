"""What a job's requests cost a patient of each split, in units of noise on counts, and the noise they need.

It follows from the job alone, so that every client knows it before the first request, and adds as much noise
as all requests together need.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

from training.algorithms.client import Client
from training.data.dataset import SERVER, SPLITS, Dataset, Split
from training.data.folds import OfPatients
from training.errors import MessageError
from training.jobs.stages.base import Stage
from training.messages import Broadcast, Update, reply, request_digest
from training.privacy.noisy_counts import earlier_answer, epsilon_of, rho_of_units, spend, variance_for
from training.privacy.settings import PrivacyConfig
from training.rounds.census import CENSUS
from training.rounds.client.disclosure import Noise, noisy_blocks
from training.rounds.requests import EMBED, EVALUATE, TEST, EvaluateRequest

JUDGING = SPLITS[1:]  # the splits whose pictures judge a model


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a job.

    Attributes:
        privacy: the job's block.
        stages: all of the job.
    """

    privacy: PrivacyConfig
    stages: Sequence[Stage]

    @property
    def testing(self) -> int | None:
        """The place of the one stage that counts test pictures, the last that can."""
        able = [place for place, stage in enumerate(self.stages) if stage.test_units]
        return able[-1] if able else None

    def tests(self, place: int) -> bool:
        """Whether the stage at this place counts test pictures: without noise every one that can does."""
        return self.privacy.noisy_counts is None or place == self.testing

    @property
    def units(self) -> dict[Split, int]:
        """What all requests cost a patient, by split."""
        found: Counter[Split] = Counter()
        for stage in self.stages:
            found.update(stage.evaluation_units(self.privacy.counts))
        if self.testing is not None:
            found["test"] += self.stages[self.testing].test_units
        return {split: found[split] for split in SPLITS if found[split]}

    def variance(self, split: Split) -> Fraction:
        """V of a cell, as each client adds it to counts of this split."""
        counts = self.privacy.counts
        assert counts.epsilon is not None, "asked only where the job says so"
        return variance_for(self.units[split], counts.epsilon, counts.delta, self.privacy.noise_sharers)

    def facts(self) -> dict[str, Any]:
        """What the summary says of it, by split; empty without noise.

        `deviation` is that of the noise in a cell as the coordinator sees it, of one hospital or of the
        fewest that a sum is of; `epsilon_of_own_noise` is what holds where all other hospitals tell theirs.
        """
        if self.privacy.noisy_counts is None:
            return {}
        sharers = self.privacy.noise_sharers
        return {
            split: {
                "parts_told": units,
                "deviation": round(sqrt(self.variance(split) * sharers), 3),
                "epsilon_of_own_noise": round(
                    epsilon_of(rho_of_units(units, float(self.variance(split))), self.privacy.counts.delta), 3
                ),
            }
            for split, units in self.units.items()
        }


def gets_noise(broadcast: Broadcast, privacy: PrivacyConfig) -> bool:
    """Whether the answer to a request gets noise: counts of pictures that judge, where the job asks for it.

    The coordinator's own client has nothing to hide from it.
    """
    counts = broadcast.ask in (EVALUATE, TEST) and broadcast.options.get("split") in JUDGING
    return counts and privacy.noisy_counts is not None and broadcast.client != SERVER


def allowed(dataset: Dataset, broadcast: Broadcast, privacy: PrivacyConfig) -> Dataset:
    """The pictures that an answer may be about.

    Where counts get noise, an answer without it finds the pictures that judge closed. The census, which is
    of all pictures, is exact; features are made of all, and the answer to that request is empty.
    """
    if privacy.noisy_counts is None or broadcast.client == SERVER or broadcast.ask in (CENSUS, EMBED):
        return dataset
    return OfPatients(dataset, JUDGING if gets_noise(broadcast, privacy) else ("train",))


def answer_with_noise(plan: NoisePlan, stage: Stage, broadcast: Broadcast, client: Client) -> Update:
    """The answer to a request about counts, with noise, on the account; a request put again gets the same.

    Raises:
        MessageError: when it is not in the job, or nothing of the budget is left.
    """
    request = EvaluateRequest.model_validate(broadcast.options)
    planned = plan.units.get(request.split, 0)
    if not planned:
        raise MessageError(
            f"{client.id} tells nothing of its {request.split} pictures: no stage of the job asks of them "
            "(privacy.counts.epsilon); do the coordinator and this site run the same job?"
        )
    asked = request_digest(broadcast)
    told = earlier_answer(client, asked)
    if told is None:
        noise = Noise(plan.variance(request.split), together=plan.privacy.noise_sharers > 1)
        exact = stage.answer(broadcast, client)
        noisy, units = noisy_blocks(exact, request, client, noise, histogram=broadcast.ask == TEST)
        spend(client, asked, request.split, request.subgroups, units, planned, noisy)
        told = noisy
    return reply(broadcast, tensors=told)
