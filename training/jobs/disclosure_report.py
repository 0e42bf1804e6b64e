"""The disclosure report: what a job has every hospital send, who can read it, and whether under masks.

One table in the same words for the user who begins a run (`dermfed-train --check`), for a hospital before it
takes part (`dermfed-node check --job`), and for the logs of both before anything is asked.

Whether counts travel under masks is decided alike at all sites where a job leaves it open. A hospital goes by
the job, by the federation file in its own kit and by the roster, and never by what a request says. A roster
can only add hospitals to those that its kit knows of, so that a coordinator talks no hospital out of masks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from registry.bundle.score_bins import smallest_cell
from training.algorithms.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE
from training.algorithms.exchanges.features import SharedFeatures
from training.algorithms.exchanges.peers import Peers
from training.algorithms.exchanges.relations import SharedRelations
from training.algorithms.objectives.beit import BEiT
from training.algorithms.objectives.codebook import Codebook
from training.algorithms.objectives.dp_sgd import DPSGD
from training.data.dataset import SERVER
from training.data.settings import DataConfig, selecting_columns
from training.data.subgroups import ToneGroups
from training.jobs.job import Job
from training.jobs.pipeline import more_hospitals
from training.jobs.stages.export import PARITY_PICTURES
from training.jobs.stages.federate import Federate
from training.jobs.stages.finetune import Finetune
from training.jobs.stages.probe import Probe
from training.jobs.stages.rounds import RoundsStage
from training.privacy.settings import CountsConfig, PrivacyConfig, SecureAggregationConfig
from training.rounds.requests import STEPS

FEWEST = 3  # hospitals, without which a sum tells each of two what the other's part is


def over_network(job: Job) -> Job:
    """The job as it is at a site of a network, wherever it says that clients run."""
    return job.model_copy(update={"engine": job.engine.model_copy(update={"name": "nvflare"})})


def hospitals_of(data: DataConfig, known: Iterable[str]) -> frozenset[str]:
    """Those of the known hospitals that such a job is for: of its sources, if any; none that is unseen."""
    named = {client for source in data.sources for client in source.clients}
    unseen = {client for source in data.sources if source.unseen for client in source.clients}
    return frozenset(name for name in known if not named or name in named) - unseen - {SERVER}


def decide_masks(job: Job, hospitals: Iterable[str]) -> Job:
    """The job with `privacy.counts.masks` decided.

    Args:
        job: the job as it was written.
        hospitals: all that are known of.
    """
    if job.privacy.counts.masks is not None:
        return job
    counts = job.privacy.counts.model_copy(update={"masks": why_open(job, hospitals) is None})
    return job.model_copy(update={"privacy": job.privacy.model_copy(update={"counts": counts})})


def why_open(job: Job, hospitals: Iterable[str] | None) -> str | None:
    """Why counts leave in the clear; None where they leave under masks.

    Args:
        job: the job.
        hospitals: all that are known of; None where that is not known yet, and there may be enough.
    """
    masks, secure = job.privacy.counts.masks, job.privacy.secure_aggregation
    if masks is not None:
        return None if masks else "the job says privacy.counts.masks: false"
    if secure is not None:
        return None if secure.counts else "the job says privacy.secure_aggregation.counts: false"
    if job.engine.name != "nvflare":
        return "all clients are on one machine (engine.name: in-process)"
    alone = [stage.stage for stage in job.stages if stage.needs_client_figures]
    if alone:
        return f"stage {alone[0]} judges models of single hospitals, each on its own counts"
    if any(source.unseen for source in job.data.sources):
        return "hospitals that take no part (unseen: true) are judged each by itself"
    taking_part = None if hospitals is None else hospitals_of(job.data, hospitals)
    if taking_part is not None and len(taking_part) < FEWEST:
        return (
            f"{len(taking_part)} hospitals take part ({', '.join(sorted(taking_part))}), and a sum of fewer "
            f"than {FEWEST} hides too little"
        )
    return None


def needs_every_hospital(job: Job, hospitals: Iterable[str]) -> str | None:
    """What follows where masked sums need all hospitals there are; None where one may be missing.

    Args:
        job: the job.
        hospitals: all of its federation.
    """
    privacy, there = decide_masks(job, hospitals).privacy, hospitals_of(job.data, hospitals)
    masks = privacy.secure_aggregation or privacy.masked_counts
    if masks is None or len(there) > masks.fewest:
        return None
    what = "counts" if privacy.secure_aggregation is None else "weights"
    return (
        f"{what} leave hospitals as sums over {masks.fewest} or more, and {len(there)} take part: where one "
        "may not (its labels are not in the job's label map, it has no pictures), the run does not begin, "
        f"whatever engine.min_clients says. {more_hospitals(job.privacy)}"
    )


COLUMNS = ("what is sent", "the coordinator sees of one hospital", "other hospitals see", "what holds")
NOTHING = "nothing"
MASKED = "masked numbers, with names and shapes; the sum of all"
OURS = ("training", "personalization")  # whose parts this module knows


@dataclass(frozen=True)
class Seen:
    """A row of the table.

    Attributes:
        topic: the row in one word.
        what: what is sent.
        coordinator: what the coordinator sees of one hospital.
        others: what other hospitals see.
        holds: what stands between it and a patient.
    """

    topic: str
    what: str
    coordinator: str
    others: str
    holds: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells below `COLUMNS`."""
        return self.what, self.coordinator, self.others, self.holds

    @property
    def line(self) -> str:
        """The row as text."""
        return (
            f"{self.what}. The coordinator sees of one hospital: {self.coordinator}. Other hospitals see: "
            f"{self.others}. What holds: {self.holds}"
        )


def disclosures(job: Job, hospitals: Iterable[str]) -> tuple[Seen, ...]:
    """The table of a job.

    Args:
        job: the job, as it is where its clients run.
        hospitals: all that are known of.
    """
    known = frozenset(hospitals)
    privacy = decide_masks(job, known).privacy
    taking_part = len(hospitals_of(job.data, known))
    return (
        *of_the_network(job),
        *of_training(job, privacy, taking_part),
        *of_exchanges(job, privacy.min_count),
        *of_counts(job, privacy, why_open(job, known), taking_part),
        *of_strangers(job),
    )


def of_the_network(job: Job) -> Iterator[Seen]:
    """What every job has hospitals tell, and what is needed to work together at a distance."""
    if job.engine.name == "nvflare":
        yield Seen(
            "introduction",
            "names of classes and subgroups, a fingerprint of the pictures, versions, times, sizes, errors",
            "all of it; of an error a code and a sentence of ours",
            "names and fingerprints",
            "in the clear: all have to agree on it",
        )
    columns = selecting_columns(job.data, job.evaluation.intersections)
    if columns:
        yield Seen(
            "columns",
            "what is counted and trained on is selected by columns of the manifest: "
            + "; ".join(f"{column} ({', '.join(settings)})" for column, settings in columns.items()),
            "whatever follows from the selection",
            NOTHING,
            f"a node selects by the columns of its policy alone, and keeps and leaves out pictures of "
            f"{of_patients(job.privacy.min_count)}, or none",
        )
    yield Seen(
        "census",
        "how many pictures by split, subgroup and class; of a hospital whose policy has census_apart: false "
        "also how many are not used or in no subgroup, by reason",
        "exact numbers; of a class in a subgroup and split however small",
        NOTHING,
        "in the clear: who is asked, and who weighs how much, follows from it; a subgroup in a split is of "
        f"{of_patients(job.privacy.min_count)}, or none",
    )
    first = job.stages[0]
    if (
        job.engine.name == "nvflare"
        and job.engine.network.canary
        and isinstance(first, RoundsStage | Finetune)
        and first.num_rounds is not None
    ):
        yield Seen(
            "canary",
            f"whether {STEPS} batches could be trained, before the first round",
            "yes, or the error",
            NOTHING,
            "what was trained is thrown away, and nothing of it is sent",
        )


def of_training(job: Job, privacy: PrivacyConfig, hospitals: int) -> Iterator[Seen]:
    """Weights, and the numbers that come with them; of so many hospitals."""
    converged = [stage for stage in job.stages if isinstance(stage, Federate) and stage.fit == "converged"]
    rounds = [stage for stage in job.stages if isinstance(stage, RoundsStage) and stage not in converged]
    trained = [stage for stage in job.stages if isinstance(stage, Finetune) or stage in rounds]
    personal = any(stage.stage == "personalize" for stage in job.stages)
    secure, level = privacy.secure_aggregation, privacy.client_level
    private = [stage for stage in trained if isinstance(stage.objective, DPSGD)]
    noise = [f"clipped to {level.clip:g}, with noise {level.noise_multiplier:g} times that"] if level else []
    noise += ["with noise on every step (dp-sgd)"] if private else []
    asked = [max(1, ceil(stage.participation * hospitals - 1e-9)) for stage in rounds]
    way = under_masks(secure, min(asked, default=hospitals))
    if personal or any(stage.sync.name != "none" or stage.sync.average_at_end for stage in rounds):
        yield Seen(
            "weights",
            "trained weights",
            MASKED if secure else "its model, after every round",
            "the models made of all",
            "; ".join([way or "in the clear: no privacy.secure_aggregation", *noise]),
        )
    masks, folds = secure or privacy.masked_counts, job.data.crossfit
    if job.model.encoders:
        yield Seen(
            "moments",
            "exact sums of what the frozen encoders make of all training pictures, and of its products in "
            "pairs, once",
            MASKED if masks else "all of them",
            "the projection",
            under_masks(masks, hospitals) or f"in the clear; of {of_patients(privacy.min_count)}",
        )
    if converged:
        heads = "a head's" if folds is None else f"{1 + folds} heads' (all but the first without a fold)"
        own = any(stage.needs_folds for stage in job.stages)
        yield Seen(
            "gradients",
            f"exact sums of {heads} loss and gradient over all labelled training pictures, at weights that "
            f"the coordinator chooses, {converged[0].evaluations} times if it keeps to the method"
            + ("; then over those of each subgroup, for heads of their own" if own else ""),
            MASKED if masks else "all of them",
            "the head",
            under_masks(masks, hospitals)
            or f"in the clear; each class that a hospital has is of {of_patients(privacy.min_count)}",
        )
    if personal or trained:
        losses = [] if level or private == trained else [*sent_losses(rounds)]
        account = ["the account of its noise"] if noise else []
        yield Seen(
            "scalars",
            "; ".join(["numbers of training pictures by subgroup", *losses, *account]),
            "all of it",
            NOTHING,
            "in the clear: weights follow from it; numbers exact, however small"
            + (f"; losses of {of_patients(privacy.min_count)}" if losses else ""),
        )


def sent_losses(rounds: Sequence[RoundsStage]) -> Iterator[str]:
    """The losses and their like that leave with an update."""
    needs = {need for stage in rounds for need in stage.aggregator.needs}
    yield "mean losses by subgroup"
    if RECEIVED_LOSSES in needs:
        cells = any(stage.aggregator.weighs_cells for stage in rounds)
        yield f"losses of the model that came, by {'class and ' if cells else ''}subgroup"
    if SQUARED_CHANGE in needs:
        yield "how far the model moved"
    if any(stage.objective.uses_unlabelled for stage in rounds):
        yield "means over pictures without a label"


def of_exchanges(job: Job, min_count: int) -> Iterator[Seen]:
    """What objectives and exchanges send in addition to weights."""
    for stage in job.stages:
        if not isinstance(stage, RoundsStage):
            continue
        exchange, objective = stage.exchange, stage.objective
        if isinstance(exchange, SharedFeatures):
            yield Seen(
                "features",
                "a feature vector of each of many training pictures",
                "all of them",
                "those of all others, mixed and without names",
                "in the clear: nothing holds; features are personal data",
            )
        if isinstance(exchange, SharedRelations):
            yield Seen(
                "relations",
                "what the model says of the pictures of a class on average",
                "its means, one a class",
                "the mean over hospitals",
                f"classes of {of_patients(min_count)}; in the clear",
            )
        if isinstance(exchange, Peers) and exchange.carries_weights:
            averaged = "the average of" if exchange.anonymous else "each of"
            yield Seen(
                "peers",
                "trained weights, passed on",
                "which hospitals resemble each other",
                f"{averaged} the models of up to {exchange.peers} others",
                "in the clear: nothing holds",
            )
        if isinstance(objective, BEiT) and isinstance(objective.tokenizer, Codebook):
            yield Seen(
                "codebook",
                "sums of patches of pixels, before the first round",
                "its sums, no patch in two of them",
                "the codebook made of all of them",
                f"sums of {objective.tokenizer.min_members} patches or more, of {of_patients(min_count)}; in "
                "the clear",
            )


def of_counts(job: Job, privacy: PrivacyConfig, open_because: str | None, hospitals: int) -> Iterator[Seen]:
    """Counts of answers, what is calibrated by, and the look at an exported model; of so many hospitals."""
    masks, names = privacy.masked_counts, {stage.stage for stage in job.stages}
    way = under_masks(masks, hospitals) or f"in the clear: {open_because}"
    apart = f"{of_patients(privacy.min_count)}, also as the difference of two answers"
    bins = f"bins of histograms of {of_patients(smallest_cell(privacy.min_count))}"
    judging = [stage for stage in job.stages if isinstance(stage, Federate | Finetune)]
    splits = {stage.evaluate_on for stage in judging if stage.evaluate_on is not None}
    splits |= {"validation"} if "personalize" in names else set()
    splits |= {"test"} if judging or names & {"probe", "personalize", "calibrate"} else set()
    if splits:
        also = [each.column for each in job.evaluation.intersections]
        noise = privacy.noisy_counts
        matrices = "exact confusion matrices" if noise is None else "confusion matrices with noise"
        yield Seen(
            "counts",
            f"counts of answers on {' and '.join(sorted(splits, reverse=True))} pictures, by subgroup"
            + (f" and {', '.join(also)}" if also else ""),
            MASKED if masks is not None else f"{matrices}, and histograms of scores",
            NOTHING,
            f"{way}; {apart}; {bins}" if noise is None else f"{way}; {of_noise(noise)}",
        )
    if any(isinstance(stage, Probe) and stage.neighbours is not None for stage in job.stages):
        yield Seen(
            "neighbours",
            "counts of what a hospital's own training pictures answer for its test pictures, by subgroup",
            MASKED if masks is not None else "exact confusion matrices, and histograms of scores",
            NOTHING,
            f"{way}; {apart}; {bins}; by training pictures of {of_patients(privacy.min_count)}, whose "
            "features stay",
        )
    if "calibrate" in names:
        pictures = "calibration" if job.data.crossfit is None else "training"
        by_tone = "; how many patients of each skin tone are in calibration and test"
        yield Seen(
            "calibration",
            f"sums of log-likelihoods, histograms of scores and distances of {pictures} pictures"
            + ("" if masks is None else ", and exact counts at up to five thresholds of each model")
            + (by_tone if isinstance(job.data.subgroups, ToneGroups) else ""),
            MASKED if masks is not None else "its sums, by subgroup",
            "temperature and thresholds fitted to all of them",
            f"{way}; {apart}; {bins}",
        )
        yield Seen(
            "embeddings",
            "sums of embeddings of training pictures by class, and their scatter over all classes",
            MASKED if masks is not None else "its sums",
            "means of classes and a spread fitted to all of them",
            f"{way}; classes of {apart}",
        )
    if "export" in names:
        yield Seen(
            "parity",
            f"how far an exported model's answers differ, on up to {PARITY_PICTURES} patients' pictures",
            "one number for each model",
            NOTHING,
            f"in the clear: what pictures of {of_patients(privacy.min_count)} reach, to one digit",
        )


def of_strangers(job: Job) -> Iterator[Seen]:
    """Parts of other distributions, of which nothing is known here."""
    parts = [(f"stage {stage.stage}", stage) for stage in job.stages]
    for stage in job.stages:
        for kind in ("objective", "exchange", "aggregator", "strategy"):
            part = getattr(stage, kind, None)
            parts += [] if part is None else [(f"{kind} {part.name}", part)]
    for name, part in parts:
        if type(part).__module__.partition(".")[0] not in OURS:
            yield Seen(
                "others' parts",
                f"whatever the {name} sends",
                "not known here",
                "not known here",
                "it is of another distribution: ask who made it",
            )


def under_masks(config: SecureAggregationConfig | None, hospitals: int) -> str:
    """How a sum is hidden, in words; nothing where it is not.

    Args:
        config: how it is.
        hospitals: how many it is of; with fewer than it needs there is none.
    """
    if config is None:
        return ""
    least = f"a sum under masks over {config.fewest} hospitals or more"
    if config.threshold(hospitals) > hospitals:
        return least
    helpers = config.helpers(hospitals)
    return f"{least}; a coordinator that lies opens one of {hospitals} with the help of {helpers} others"


def of_noise(counts: CountsConfig) -> str:
    """What noise on counts promises, in words."""
    return (
        f"noise over all rounds: ({counts.epsilon:g}, {counts.delta:g})-differential privacy of a patient; "
        "how many patients of each class there are is exact"
    )


def of_patients(least: int) -> str:
    """So many patients, in words."""
    return f"{least} patients or more" if least > 1 else "any number of patients"
