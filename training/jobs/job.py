"""The job: all that determines a run's weights, checked before anything starts.

The `refuse_*` functions say which parts of a job do not go together.
"""

import hashlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from training.algorithms.aggregators import FedAvg
from training.algorithms.aggregators.weighting import FedEqual
from training.algorithms.objectives.beit import BEiT
from training.algorithms.objectives.codebook import Codebook
from training.algorithms.objectives.dp_sgd import DPSGD
from training.algorithms.trainable import TrainableAll
from training.config import describe
from training.data.settings import DataConfig
from training.data.subgroups import ToneGroups
from training.errors import JobError
from training.jobs.job_file import ORDER, find_job, read_plain
from training.jobs.noise_plan import NoisePlan
from training.jobs.settings import JobSettings, TrackingConfig
from training.jobs.stages import STAGES
from training.jobs.stages.base import Stage
from training.jobs.stages.federate import Federate
from training.jobs.stages.pretrain import Pretrain
from training.jobs.stages.probe import Probe
from training.jobs.stages.rounds import RoundsStage
from training.models import ModelConfig
from training.models.encoder_sources import NONE
from training.privacy.settings import CompressionConfig, PrivacyConfig


def refuse_unfit(
    privacy: PrivacyConfig,
    compression: CompressionConfig,
    stages: Sequence[Stage],
    data: DataConfig,
    traits: Sequence[str] = (),
) -> None:
    """Refuse what needs single clients' weights or counts where only sums leave, or what spoils an account.

    Raises:
        ValueError: saying why, and what else there is.
    """
    rounds = [stage for stage in stages if isinstance(stage, RoundsStage)]
    if privacy.secure_aggregation is not None:
        refuse_under_masks(compression, rounds)
    if privacy.masked_counts is not None:
        refuse_without_client_figures(stages, data)
    if privacy.client_level is not None:
        refuse_under_noise(privacy, rounds)
    if privacy.noisy_counts is not None:
        refuse_under_noisy_counts(privacy, stages, data, traits)
    refuse_two_codebooks(rounds)
    private = [stage for stage in rounds if isinstance(stage.objective, DPSGD)]
    for stage in private:
        refuse_uncovered(stage, "the objective dp-sgd")
    if private or privacy.client_level is not None or privacy.noisy_counts is not None:
        refuse_exact_gradients(stages)
    if (private or privacy.client_level is not None) and find_spec("opacus") is None:
        raise ValueError(
            "an account of differential privacy is Opacus', which is not installed here; install it with "
            "`pip install dermfed[privacy]`"
        )


def refuse_without_cases(stages: Sequence[Stage], data: DataConfig, model: ModelConfig) -> None:
    """Refuse what knows single pictures alone where lesions are diagnosed, and fusion where they are not.

    Raises:
        ValueError: saying what, and what else there is.
    """
    if data.case is None:
        if model.fusion is not None:
            raise ValueError("model.fusion is for cases; set data.unit: lesion, or remove it")
        return
    for each in stages:
        if each.without_cases is not None:
            raise ValueError(
                f"stage {each.stage}: the {each.without_cases} takes single pictures, and data.unit is "
                "lesion; train cases with the objective supervised, or pre-train in a job of its own with "
                "unit: picture and name what it left in model.weights"
            )


def refuse_unknowing_encoder(stages: Sequence[Stage], model: ModelConfig) -> None:
    """Refuse to freeze an encoder that knows nothing: of random weights, with no stage before that trains it.

    Raises:
        ValueError: saying what to do.
    """
    for place, each in enumerate(stages):
        if not isinstance(each, Federate) or isinstance(each.trainable, TrainableAll):
            continue
        trained = any(
            isinstance(stage, RoundsStage)
            and not stage.keeps_model
            and isinstance(getattr(stage, "trainable", TrainableAll()), TrainableAll)
            for stage in stages[:place]
        )
        if any(weights == NONE for _, weights in model.begins_with) and not trained:
            raise ValueError(
                f"trainable: {each.trainable.name} leaves the encoder as it is, and model.weights is none: "
                "it knows nothing. Name weights, put a stage pretrain before it, or set trainable: {name: "
                "all}"
            )


def refuse_several_encoders(stages: Sequence[Stage], model: ModelConfig, privacy: PrivacyConfig) -> None:
    """Refuse to train or probe several encoders, and sums of features that no noise covers.

    Raises:
        ValueError: saying what, and what else there is.
    """
    if not model.encoders:
        return
    other = next((stage for stage in stages if stage.one_encoder), None)
    if other is not None:
        raise ValueError(
            f"stage {other.stage} works on one encoder, or trains it, and model.encoders are several and "
            "stay as they are; set trainable: {name: head} for federate and the strategy none for "
            "personalize, leave other training out, or name one encoder by model.name"
        )
    if privacy.client_level is not None or privacy.noisy_counts is not None:
        raise ValueError(
            "model.encoders are projected by exact sums of features, which no noise of privacy.client_level "
            "or of privacy.counts.epsilon covers; remove the noise, or name one encoder by model.name"
        )


def refuse_growing_pictures(stages: Sequence[Stage], data: DataConfig) -> None:
    """Refuse first rounds on pictures that would not be smaller than the job's.

    Raises:
        ValueError: saying both sizes.
    """
    for each in stages:
        small = each.progressive_resizing if isinstance(each, Federate) else None
        if small is not None and small.image_size >= data.image_size:
            raise ValueError(
                f"progressive_resizing.image_size is {small.image_size}, and pictures have {data.image_size} "
                "pixels on both sides (data.image_size); name fewer, or remove it"
            )


def refuse_routing_by_others(stages: Sequence[Stage], data: DataConfig) -> None:
    """Refuse models of subgroups by which no picture can be routed.

    Raises:
        ValueError: saying what to declare.
    """
    routing = [stage.stage for stage in stages if stage.routes_by_tone]
    if routing and not isinstance(data.subgroups, ToneGroups):
        raise ValueError(
            f"{routing[0]} needs data.subgroups by skin tone (`groups`): a picture is "
            "routed by its declared tone, and other columns are reported only; or set per: client"
        )


def refuse_two_codebooks(rounds: Sequence[RoundsStage]) -> None:
    """Refuse a second codebook: clients answer for each patch once in a run."""
    tokenizers = [each.objective.tokenizer for each in rounds if isinstance(each.objective, BEiT)]
    if sum(isinstance(each, Codebook) for each in tokenizers) > 1:
        raise ValueError(
            "two stages learn a codebook of the same pictures, and sums around two sets of codes could "
            "tell single patches apart: a job learns one. Leave one of the stages out, or give it the "
            "tokenizer dalle"
        )


def refuse_under_masks(compression: CompressionConfig, rounds: Sequence[RoundsStage]) -> None:
    """Refuse what needs single clients' weights."""
    for stage in rounds:
        exchange = stage.exchange
        if exchange.comes_back or exchange.opens or exchange.carries_weights or exchange.needs_server:
            raise ValueError(
                f"privacy.secure_aggregation hides every client's tensors in a sum, and the exchange "
                f"{exchange.name} needs those of single clients; use the exchange none, or leave masks out"
            )
    if compression.up != "exact":
        raise ValueError(
            f"compression.up is {compression.up}, and masked numbers are uniform: they cannot be "
            "compressed. Use compression.up: exact, or leave privacy.secure_aggregation out"
        )


def refuse_without_client_figures(stages: Sequence[Stage], data: DataConfig) -> None:
    """Refuse what needs single clients' counts."""
    way_out = "masks let no client's counts be seen; leave {} out, or set privacy.counts.masks: false"
    for each in stages:
        if each.needs_client_figures:
            raise ValueError(
                f"stage {each.stage} judges the models of single clients, each on its own counts, and "
                f"{way_out.format('the stage')}"
            )
    if any(source.unseen for source in data.sources):
        raise ValueError(
            "clients that take no part (unseen: true) are judged each by itself, and "
            f"{way_out.format('them')}"
        )


def refuse_under_noise(privacy: PrivacyConfig, rounds: Sequence[RoundsStage]) -> None:
    """Refuse what the privacy account would not cover."""
    level = privacy.client_level
    assert level is not None, "asked only where the job says so"
    if level.noise == "together" and privacy.secure_aggregation is None:
        raise ValueError(
            "privacy.client_level.noise: together lets each client add a part of the noise, which hides "
            "nothing in a single update; add privacy.secure_aggregation, or use noise: each"
        )
    for stage in rounds:
        refuse_uncovered(stage, "privacy.client_level")
        if isinstance(stage, Probe) and stage.neighbours is not None:
            raise ValueError(
                "stage probe answers by the labels of single training pictures, which the noise of "
                "privacy.client_level does not cover; set neighbours: null, and the linear probe is left"
            )
        if level.noise == "together" and not isinstance(stage.aggregator, FedEqual):
            raise ValueError(
                "privacy.client_level.noise: together needs equal weights, or the noise of small clients "
                "would not hide a large one; use aggregator fedequal, or noise: each"
            )


def refuse_exact_gradients(stages: Sequence[Stage]) -> None:
    """Refuse a head that is fitted to convergence in a job whose noise would not cover its gradients."""
    if any(isinstance(stage, Federate) and stage.fit == "converged" for stage in stages):
        raise ValueError(
            "fit: converged asks for exact gradients, which no noise of privacy.client_level, of "
            "privacy.counts.epsilon or of dp-sgd covers; remove the noise, or set fit: rounds"
        )


def refuse_uncrossed(stages: Sequence[Stage], data: DataConfig) -> None:
    """Refuse cross-fitting of what is not trained without each fold.

    Raises:
        ValueError: saying what, and what else there is.
    """
    drawn = next((each for each in stages if each.needs_folds), None)
    if drawn is not None and data.crossfit is None:
        raise ValueError(
            f"stage {drawn.stage} chooses heads by pictures that they have not seen, and the job has no "
            "folds; set data.crossfit and fit: converged, or choose another strategy"
        )
    if data.crossfit is None:
        return
    heads = [stage for stage in stages if isinstance(stage, Federate)]
    for each in stages:
        fitted = isinstance(each, Federate) and each.fit == "converged"
        if not fitted and not isinstance(each, Pretrain | Probe) and each.num_rounds:
            raise ValueError(
                f"data.crossfit scores every training picture by a model that was not trained on its label, "
                f"and stage {each.stage} trains one model in rounds; set fit: converged for the head and "
                "leave other training out, or remove crossfit and calibrate on a split"
            )
    if len(heads) != 1:
        raise ValueError(
            f"data.crossfit needs one stage federate with fit: converged, and the job has {len(heads)}; add "
            "it, or remove crossfit"
        )


def refuse_under_noisy_counts(
    privacy: PrivacyConfig, stages: Sequence[Stage], data: DataConfig, traits: Sequence[str]
) -> None:
    """Refuse what noise on counts would leave nothing of, and what it cannot cover."""
    for each in stages:
        if each.asks_exactly:
            raise ValueError(
                f"stage {each.stage} asks for sums and histograms of calibration and test pictures without "
                "noise, and privacy.counts.epsilon promises that none are told; leave the stage out (models "
                "then refer every picture), or the noise"
            )
        if isinstance(each, Probe):
            raise ValueError(  # noqa: TRY004, a setting and not a type is wrong
                "stage probe counts test pictures twice, once by the labels of training pictures, and "
                "privacy.counts.epsilon lets them be counted once, by the final model; probe in a job "
                "without noise, or leave the stage out"
            )
        if each.needs_client_figures:
            raise ValueError(
                f"stage {each.stage} judges the models of single clients, each on its own few pictures, and "
                "privacy.counts.epsilon adds noise to every count; leave the stage out, or the noise"
            )
        if each.compares_models:
            raise ValueError(
                f"stage {each.stage} counts what a personal model gets right that the global one got wrong, "
                "and privacy.counts.epsilon promises that nothing is counted without noise; choose epochs "
                "without proof (selection: {proof: null}), or leave the noise out"
            )
    if any(source.unseen for source in data.sources):
        raise ValueError(
            "clients that take no part (unseen: true) are judged by each stage, and privacy.counts.epsilon "
            "lets test pictures be counted once; leave them out, or the noise"
        )
    if traits:
        raise ValueError(
            f"evaluation.intersections names {', '.join(traits)}: counts of such parts would each need their "
            "share of privacy.counts.epsilon; leave them out, or the noise"
        )
    if "train" in NoisePlan(privacy, stages).units:
        raise ValueError(
            "evaluate_on: train counts training pictures, of which losses and weights tell more than "
            "privacy.counts.epsilon covers; evaluate on validation, or leave the noise out"
        )


def refuse_uncovered(stage: RoundsStage, what: str) -> None:
    """Refuse what would be sent in addition to the weights and is not covered by the privacy account."""
    if not isinstance(stage.aggregator, FedAvg | FedEqual):
        raise ValueError(  # noqa: TRY004, a setting and not a type is wrong
            f"aggregator {stage.aggregator.name} reads losses or norms of clients, which the account of "
            f"{what} does not cover; use fedequal or fedavg"
        )
    if stage.exchange.comes_back or stage.exchange.opens:
        raise ValueError(
            f"exchange {stage.exchange.name} sends more than weights, which the account of {what} does not "
            "cover; use the exchange none"
        )


class Job(JobSettings):
    """A job file: its settings, and the stages that run one after the other."""

    stages: tuple[Annotated[Stage, STAGES], ...] = Field(min_length=1)

    @field_validator("stages")
    @classmethod
    def _inherit(cls, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        filled: list[Stage] = []
        for stage in stages:
            filled.append(stage.inherit(filled))
        return tuple(filled)

    @model_validator(mode="after")
    def _stages_in_order(self) -> "Job":
        names = [stage.stage for stage in self.stages]
        places = [ORDER.index(name) if name in ORDER else len(ORDER) for name in names]
        if places != sorted(places):
            raise ValueError(f"stages run in the order {', '.join(ORDER)}; these are {', '.join(names)}")
        if "calibrate" in names and "export" not in names:
            raise ValueError("calibrate works on the exported graph; put {stage: export} before it")
        if "register" in names and "export" not in names and set(names) <= set(ORDER):
            raise ValueError("register adds exported models to the registry; put {stage: export} before it")
        if "finetune" in names and "export" in names and "federate" not in names:
            raise ValueError(
                "finetune leaves a model at each client and none to export; add a stage federate"
            )
        return self

    @model_validator(mode="after")
    def _privacy_holds(self) -> "Job":
        refuse_unfit(self.privacy, self.compression, self.stages, self.data, tuple(self.evaluation.traits))
        return self

    @model_validator(mode="after")
    def _model_and_data_fit(self) -> "Job":
        refuse_without_cases(self.stages, self.data, self.model)
        refuse_unknowing_encoder(self.stages, self.model)
        refuse_several_encoders(self.stages, self.model, self.privacy)
        refuse_growing_pictures(self.stages, self.data)
        refuse_routing_by_others(self.stages, self.data)
        refuse_uncrossed(self.stages, self.data)
        return self

    def key(self, place: int) -> str:
        """The key of the stage at `place`, e.g. `0-federate`."""
        return f"{place}-{self.stages[place].stage}"

    def stage(self, key: str) -> Stage:
        """The stage with this key."""
        return self.stages[int(key.partition("-")[0])]

    def resolved(self) -> dict[str, Any]:
        """The job with every default filled in, as plain data."""
        return self.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """What determines the weights, in one word; where clients run, masks on counts, and notes do not."""
        network = self.engine.network.model_copy(update={"canary": True})
        engine = self.engine.model_copy(update={"network": network})
        counts = self.privacy.counts.model_copy(update={"masks": None})
        privacy = self.privacy.model_copy(update={"counts": counts})
        alike = self.model_copy(update={"engine": engine, "privacy": privacy, "tracking": TrackingConfig()})
        plain = alike.model_dump(mode="json")
        plain.pop("about")
        plain["engine"].pop("workers")
        plain["engine"]["name"] = "in-process"
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_job(path: Path, changes: Sequence[str] = ()) -> Job:
    """Read and check a job file; see `training.jobs.job_file` for files that extend another.

    Args:
        path: the YAML file, or a built-in job's name, as `fedperl@t3`.
        changes: `key.path=value` overrides; a number or a stage's name picks from `stages`.

    Raises:
        JobError: with one line for each thing that is wrong.
    """
    path = find_job(path)
    return job_of(read_plain(path, changes), path)


def job_of(plain: dict[str, Any], path: Path) -> Job:
    """The job in plain data.

    Args:
        plain: what `read_plain` read.
        path: where, for messages.

    Raises:
        JobError: with one line for each thing that is wrong.
    """
    try:
        return Job.model_validate(plain)
    except ValidationError as error:
        raise JobError(f"{path}:\n" + "\n".join(describe(error, plain))) from error
