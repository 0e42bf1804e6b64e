"""What stages of rounds share: objective, sync, exchange and aggregator, and the plan made of them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from registry.bundle.labels import Label
from training.algorithms.aggregators import AGGREGATORS, Aggregator
from training.algorithms.aggregators.base import RECEIVED_LOSSES, JobContext
from training.algorithms.client import Client
from training.algorithms.exchanges import EXCHANGES, Exchange, NoExchange
from training.algorithms.exchanges.base import ServerContext
from training.algorithms.objectives import OBJECTIVES, Objective
from training.algorithms.objectives.supervised import Supervised
from training.algorithms.sync import BUFFERS, SYNCS, Sync, SyncAll
from training.data.cells import Cells
from training.data.dataset import SERVER, Split
from training.errors import JobError, QuorumError
from training.jobs.stages.base import Stage, StageContext
from training.messages import GLOBAL, Broadcast, Update
from training.models import Classifier
from training.models.classifier import float_state
from training.privacy.compression import Compressor
from training.privacy.settings import PrivacyConfig
from training.randomness import derive_seed
from training.rounds.census import Census, CensusBounds
from training.rounds.client.evaluate import evaluate
from training.rounds.client.fit import collect_kept, fit, open_exchange
from training.rounds.requests import COLLECT, FIT, JUDGE, OPEN
from training.rounds.server.plan import Draw, NoiseProbe, Plan, Track, UploadStore, validation_accuracy

FEWEST_CLASSES = 2


class RoundsStage(Stage):
    """The four parts of a system, and how many rounds they run.

    Attributes:
        rounds: how many.
        objective: what a client minimises.
        sync: which parameters travel.
        exchange: what travels besides.
        aggregator: how the server combines.
        participation: the share of clients asked each round; the server, where it trains, is always asked.
        draw: whether each client is as likely to be asked, or likely as it has training pictures (FedVC).
    """

    rounds: int = Field(ge=1)
    objective: Annotated[Objective, OBJECTIVES]
    sync: Annotated[Sync, SYNCS] = SyncAll()
    exchange: Annotated[Exchange, EXCHANGES] = NoExchange()
    aggregator: Annotated[Aggregator, AGGREGATORS]
    participation: float = Field(1.0, gt=0, le=1)
    draw: Draw = "uniform"

    @model_validator(mode="after")
    def _parts_fit(self) -> "RoundsStage":
        self.exchange.fit_with(self.objective)
        self.objective.fit_with(self.exchange)
        require_labelled_losses(self.aggregator, self.objective)
        require_weighed_cells(self.aggregator, self.objective)
        return self

    @property
    def num_rounds(self) -> int | None:
        """All of them."""
        return self.rounds

    @property
    def without_cases(self) -> str | None:
        """The objective, if it takes single pictures."""
        return None if self.objective.takes_cases else f"objective {self.objective.name}"

    @property
    def one_encoder(self) -> bool:
        """Rounds train one, unless they say otherwise."""
        return True

    @property
    def minimised(self) -> Objective:
        """What a client minimises."""
        return self.objective

    @property
    def sends(self) -> Sync:
        """What travels, and how it is merged."""
        return self.sync

    def image_size_in(self, round_: int) -> int | None:
        """To how many pixels a round scales pictures down before it trains on them; None for as they are."""
        return None

    def plan_for(
        self, context: StageContext, model: Classifier, split: Split | None, *, labelled: bool = True
    ) -> Plan:
        """What stays the same through the rounds of one global model.

        Args:
            context: what the stage finds.
            model: whose parameters are trained.
            split: what is evaluated after each round; None for nothing.
            labelled: whether only clients that hold labelled training pictures train.

        Raises:
            QuorumError: when the job demands more answers than there are clients.
            JobError: when uploads are to be judged, and the server cannot.
        """
        clients = context.census.holders("train", context.all_subgroups, labelled=labelled)
        needed = context.job.engine.min_clients
        if needed is not None and context.dismissed:
            needed = min(needed, len(clients))  # whoever dismisses a client does not wait for it
        if needed is not None and needed > len(clients):
            raise QuorumError(
                f"engine.min_clients is {needed}, but only {len(clients)} clients hold training pictures: "
                f"{', '.join(clients)}. Lower it, or bring more clients"
            )
        judges = context.judges(split, context.all_subgroups) if split else ()
        shared, local = divide(self.sends, model)
        require_noise_fits(context.job.privacy, self.sends, shared, local)
        self.objective.require_model(model)
        if self.exchange.needs_server:
            require_judge(context, local)
        if self.exchange.carries_weights and all(name.endswith(BUFFERS) for name in shared):
            raise JobError(
                f"the exchange {self.exchange.name} passes weights on, and with sync {self.sends.name} no "
                "parameter travels; use another sync, or the exchange none"
            )
        track = Track(
            GLOBAL,
            clients,
            judges,
            context.census.judged(split, context.all_subgroups) if split else context.all_subgroups,
            always=tuple(client for client in clients if client == SERVER),
            sizes={
                name: context.census.held(name, "train", context.all_subgroups, labelled=labelled)
                for name in clients
            },
        )
        return Plan(
            stage=context.key,
            rounds=self.rounds,
            tracks=(track,),
            shared=shared,
            local=local,
            exchange=self.exchange,
            aggregator=self.settled(context.census, context.labels, context.job.privacy, clients),
            participation=self.participation,
            min_clients=needed,
            average_at_end=self.sends.average_at_end,
            split=split,
            seed=context.job.seed,
            dismissed=context.dismissed,
            prepare=self.objective.prepare,
            draw=self.draw,
            server_context=server_context_of(context, model),
            masks=context.job.privacy.secure_aggregation,
            masked_counts=context.job.privacy.masked_counts,
            compressor=Compressor(context.job.compression),
            # While few pictures without a label count, clients that have no others hardly move.
            update_limit=None if self.objective.uses_unlabelled else context.job.engine.update_limit,
            bounds=CensusBounds(context.census, self.objective.least_loss),
            canary=context.canary,
            evaluated=context.job.privacy.counts.evaluated(self.rounds),
        )

    def require_data(self, census: Census, labels: Sequence[Label], privacy: PrivacyConfig) -> None:
        """Refuse data of which the objective or the aggregator could make nothing."""
        if not self.objective.self_supervised and len(labels) < FEWEST_CLASSES:
            found = ", ".join(label.code for label in labels) or "none"
            raise JobError(
                f"{self.stage}: a model tells classes apart, and the pictures have {len(labels)} ({found}); "
                "name another in data.label_map, or remove what leaves its pictures out"
            )
        self.settled(census, labels, privacy, census.holders("train", census.all_subgroups, labelled=False))

    def settled(
        self,
        census: Census,
        labels: Sequence[Label],
        privacy: PrivacyConfig,
        clients: Sequence[str],
    ) -> Aggregator:
        """The aggregator with what depends on the data filled in.

        Args:
            census: who holds what.
            labels: the classes.
            privacy: the job's.
            clients: who trains.

        Raises:
            JobError: when it can do nothing with such data.
        """
        held = [name for name in census.all_subgroups if census.holders("train", [name])]
        by = self.aggregator.weighs_cells
        cells = None if by is None else Cells.of(by, labels, census.subgroups)
        return self.aggregator.for_job(
            JobContext(
                clients,
                held,
                bool(census.subgroups),
                self.objective.optimizer.lr,
                {} if cells is None else census.by_cell("train", cells, clients),
                privacy.min_count,
            )
        )

    def train(self, broadcast: Broadcast, client: Client) -> Update:
        """A client's half of the rounds: train, open the exchange, hand over what was kept, or prepare."""
        if broadcast.ask == FIT:
            return fit(
                broadcast,
                client,
                self.minimised,
                self.sends,
                rounds=self.rounds,
                subgroup=None,
                needs=self.aggregator.needs,
                weighs_cells=self.aggregator.weighs_cells,
                image_size=self.image_size_in(broadcast.round),
            )
        if broadcast.ask == OPEN:
            return open_exchange(broadcast, client, self.objective, rounds=self.rounds)
        if broadcast.ask == COLLECT:
            return collect_kept(broadcast, client, self.sends)
        if broadcast.ask == JUDGE:
            client.local_model.load(broadcast.tensors)
            return evaluate(broadcast, client)
        return self.objective.answer(broadcast, client)

    def tidy(self, folder: Path) -> None:
        """Remove what the clients uploaded."""
        upload_store_in(folder, "").clear()


def require_noise_fits(
    privacy: PrivacyConfig, sync: Sync, shared: Sequence[str], local: Sequence[str]
) -> None:
    """Refuse noise on statistics of normalisation, and weights that would leave without noise at the end.

    Raises:
        JobError: naming one, and what to do.
    """
    if privacy.client_level is None:
        return
    statistics = [name for name in shared if name.endswith(BUFFERS)]
    if statistics:
        raise JobError(
            f"privacy.client_level adds noise to all that travels, and {len(statistics)} statistics of batch "
            f"normalisation do (first {statistics[0]}), which noise spoils; use a model without them, e.g. "
            "model.options: {norm_layer: groupnorm} of a ResNet (groupnorm1 for a narrow one), or a ViT"
        )
    if local and sync.average_at_end:
        raise JobError(
            f"privacy.client_level adds noise to what travels in rounds, and {len(local)} tensors that stay "
            f"at their clients (first {local[0]}) would be uploaded after the last one as they are; set "
            "sync.average_at_end: false"
        )


def upload_store_in(folder: Path, job: str) -> UploadStore:
    """The upload store of a stage."""
    return UploadStore(folder / "uploads", job)


def server_context_of(context: StageContext, model: Classifier) -> ServerContext:
    """What the exchange of a stage may call at the coordinator."""
    uploads = upload_store_in(context.folder, context.digest)
    seed = derive_seed(context.job.seed, context.key, "examiner")
    probe = NoiseProbe(model, context.job.data.image_size, seed)
    return ServerContext(
        put=uploads.put,
        get=uploads.get,
        validation_accuracy=partial(
            validation_accuracy, context.engine, SERVER, context.key, context.all_subgroups
        ),
        predict_noise=probe.predict,
    )


def require_judge(context: StageContext, local: Sequence[str]) -> None:
    """Refuse to judge uploads without a server that holds validation pictures, or by half of a model.

    Raises:
        JobError: saying what to add.
    """
    census, least = context.census, context.job.privacy.min_count
    held = [
        census.held(SERVER, "validation", [place])
        for place in context.all_subgroups
        if SERVER in census.counts
    ]
    if max(held, default=0) < least:
        raise JobError(
            "this exchange judges uploads on validation pictures that the coordinator owns; it needs "
            f"{least} of one subgroup (privacy.min_count) and has {max(held, default=0)}; add data.server "
            "({share: 0.05, train: 0}), raise its share or lower its train, or use a policy that judges "
            "nothing, without choice.accuracy"
        )
    if local:
        raise JobError(
            f"this exchange judges uploads, and {len(local)} tensors of the model stay at their clients "
            f"(first {local[0]}); use sync all with buffers average, or another policy"
        )


def require_labels(objective: Objective) -> Objective:
    """The objective, which must learn the classes.

    Raises:
        ValueError: when it learns features alone.
    """
    if objective.self_supervised:
        raise ValueError(f"{objective.name} learns no classes; put it into a stage pretrain before this one")
    return objective


def require_labelled_losses(aggregator: Aggregator, objective: Objective) -> None:
    """Refuse an aggregator that reads losses which some client could not compute.

    Raises:
        ValueError: saying why, and what else there is.
    """
    if RECEIVED_LOSSES not in aggregator.needs:
        return
    if objective.self_supervised or objective.uses_unlabelled:
        why = "needs no labels" if objective.self_supervised else "also trains where there are none"
        others = [name for name, kind in AGGREGATORS.own.items() if RECEIVED_LOSSES not in kind.needs]
        raise ValueError(
            f"aggregator {aggregator.name} weighs by the received model's loss on labelled pictures, and "
            f"objective {objective.name} {why}; use the objective supervised, or one of the aggregators "
            f"{', '.join(others)}"
        )


def require_weighed_cells(aggregator: Aggregator, objective: Objective) -> None:
    """Refuse an aggregator that weighs cells where clients do not, or weigh classes too.

    Raises:
        ValueError: saying why, and what else there is.
    """
    if aggregator.weighs_cells is None:
        return
    if not objective.weighs_cells:
        raise ValueError(
            f"aggregator {aggregator.name} has clients weigh their pictures by class and subgroup, and "
            f"objective {objective.name} weighs none; use the objective supervised, or the aggregator fedavg"
        )
    if isinstance(objective, Supervised) and objective.class_weights != "none":
        raise ValueError(
            f"aggregator {aggregator.name} says what a picture of each class counts, and so does "
            f"objective.class_weights: {objective.class_weights}; remove it, or use the aggregator fedavg"
        )


def divide(sync: Sync, model: Classifier) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that travel and those that stay, in the model's order."""
    shared = sync.shared(model)
    return shared, tuple(name for name in float_state(model) if name not in shared)
