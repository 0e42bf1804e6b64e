"""The `privacy` and `compression` blocks of a job: what an update discloses, and in how many bits."""

from math import ceil
from typing import Literal

from pydantic import Field, model_validator

from training.config import FrozenConfig

Form = Literal["exact", "half", "8-bit"]  # of a tensor as it travels


class SecureAggregationConfig(FrozenConfig):
    """Sums that the coordinator learns without learning what was added (Bonawitz et al. 2017).

    Attributes:
        fewest: the least number of hospitals whose sum is ever revealed.
        survivors: of the clients that begin a sum, the share of whom more must still be there at its end;
            t = max(fewest, ⌊survivors · n⌋ + 1) in the paper's symbols; null for two thirds, which the paper
            has for a dishonest coordinator. A larger share bears fewer dropouts, and more clients that lend
            their shares to such a one.
        bound: the largest absolute value of a weight that can be summed; a tensor of which the round began
            with larger values gets four times their largest. A client with a larger one refuses.
        counts: whether metric counts are masked too, not weights alone; `privacy.counts.masks` goes before.
    """

    fewest: int = Field(3, ge=2)
    survivors: float | None = Field(None, ge=0.5, lt=1)
    bound: float = Field(64.0, ge=1, le=65536)
    counts: bool = True

    def threshold(self, clients: int) -> int:
        """The threshold t of so many clients."""
        least = 2 * clients // 3 if self.survivors is None else int(self.survivors * clients)
        return max(self.fewest, least + 1)

    def helpers(self, clients: int) -> int:
        """How many of so many a coordinator that lies needs on its side to open one hospital's numbers.

        Each confirms one list of survivors, and t have to: two lists need 2 t − n that confirm both. All
        others together need no list: the sum less their own numbers is that one's.
        """
        return min(2 * self.threshold(clients) - clients, clients - 1)


class ClientLevelConfig(FrozenConfig):
    """Differential privacy of a client's whole contribution: clip its update, add Gaussian noise.

    Attributes:
        clip: S, the largest L2 norm of an update over all that travels.
        noise_multiplier: z; the noise has z S as its standard deviation in each value.
        delta: δ of the account.
        noise: `each` client adds all of it, against those who see a single update; `together` they do, each a
            part, against those who see the sum: that needs secure aggregation and equal weights.
    """

    clip: float = Field(gt=0)
    noise_multiplier: float = Field(gt=0)
    delta: float = Field(1e-5, gt=0, lt=1)
    noise: Literal["each", "together"] = "each"


class CountsConfig(FrozenConfig):
    """How counts of answers and the sums of `calibrate` leave a client.

    Attributes:
        masks: whether as sums under masks. Null for `privacy.secure_aggregation.counts` where the job has
            that block, and else for what suits the job, see `training.jobs.disclosure_report`: over a
            network with three hospitals or more. How counts are added up changes no weight, so it is no part
            of a job's identity.
        epsilon: ε of all that a run tells of the answers for one patient's pictures, in a split other than
            `train`; null for no noise.
        delta: δ of the same.
        evaluations: with noise, how many rounds of a stage are evaluated, evenly spaced, the last among them:
            each more makes all of them noisier.
    """

    masks: bool | None = None
    epsilon: float | None = Field(None, ge=0.05, le=50)
    delta: float = Field(1e-5, gt=0, le=0.01)
    evaluations: int = Field(4, ge=1)

    def evaluated(self, rounds: int) -> frozenset[int]:
        """Which of so many rounds are evaluated; all without noise."""
        if self.epsilon is None or self.evaluations >= rounds:
            return frozenset(range(1, rounds + 1))
        return frozenset(ceil(part * rounds / self.evaluations) for part in range(1, self.evaluations + 1))


class PrivacyConfig(FrozenConfig):
    """What leaves a client.

    Attributes:
        min_count: statistics of fewer patients are not sent; where the patient is not known, a lesion counts
            as one.
        secure_aggregation: whether weights and counts leave masked; null for weights in the clear.
        client_level: whether updates leave clipped and with noise; null for as they are.
        counts: how counts leave.
    """

    min_count: int = Field(10, ge=1)
    secure_aggregation: SecureAggregationConfig | None = None
    client_level: ClientLevelConfig | None = None
    counts: CountsConfig = CountsConfig()

    @model_validator(mode="after")
    def _says_one_thing_of_counts(self) -> "PrivacyConfig":
        secure = self.secure_aggregation
        if self.counts.masks and secure is not None and not secure.counts:
            raise ValueError(
                "counts.masks is true and secure_aggregation.counts is false; leave one of them out"
            )
        return self

    @property
    def noisy_counts(self) -> CountsConfig | None:
        """The noise on counts; None for none."""
        return self.counts if self.counts.epsilon is not None else None

    @property
    def noise_sharers(self) -> int:
        """How many hospitals' noise is in whatever the coordinator sees of counts, at least."""
        return self.masked_counts.fewest if self.masked_counts is not None else 1

    @property
    def masked_counts(self) -> SecureAggregationConfig | None:
        """How counts are summed; None for in the clear, and where it is undecided what suits the job."""
        secure = self.secure_aggregation
        if self.counts.masks is None:
            return secure if secure is not None and secure.counts else None
        return (secure or SecureAggregationConfig()) if self.counts.masks else None


class CompressionConfig(FrozenConfig):
    """How many bits a weight takes on its way.

    Attributes:
        up: the form of what a client trained, as the difference to what it was sent.
        down: the form of what clients are sent for training and for the evaluation of a round. It is the
            weights themselves, since not every client holds those of the round before: 8 bits are too few.
        exact_below: tensors of fewer values travel as they are, normalisation and biases among them.
    """

    up: Form = "exact"
    down: Literal["exact", "half"] = "exact"
    exact_below: int = Field(4096, ge=0)
