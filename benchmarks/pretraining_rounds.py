"""Rounds of pre-training by the round loop, and bare local training of the same clients in between.

One run of `training.rounds.server.loop.run_rounds` with the plan of the stage `pretrain`. After a
round is logged the
clock of the loop stands still while the same clients train without the loop: `train_locally` on a local model
of its own, with what the exchange would send and what the client would keep held in memory. A loop's round
is everything between two such stops: messages, checks, averaging, client stores, log and checkpoint.
"""

from pathlib import Path

from loop_overhead import Duration, measured, setting_of
from noise_pictures import NoisePictures
from rich.console import Console
from utilisation import synchronise

from clients.store import ClientStore
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives.base import LocalRound
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import Job
from training.jobs.stages.pretrain import Pretrain
from training.messages.message import GLOBAL, Tensors
from training.models import initial_model
from training.models.classifier import float_state
from training.rounds.client.fit import train_locally
from training.rounds.requests import Blocks
from training.rounds.server.checkpoint import Checkpoints
from training.rounds.server.loop import run_rounds
from training.rounds.server.metrics import MetricsLog
from training.rounds.server.plan import Plan, States, TrackState
from training.seeds import generator


class BareTraining:
    """The clients' local training, one after another on one model whose weights go nowhere."""

    def __init__(self, job: Job, dataset: NoisePictures, plan: Plan) -> None:
        stage = job.stages[0]
        assert isinstance(stage, Pretrain)
        self._job = job
        self._dataset = dataset
        self._plan = plan
        self._objective = stage.objective
        model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels))
        self.local_model = LocalModel(model, job.engine.device, job.engine.precision).with_heads(
            stage.objective
        )
        self._kept: dict[str, Tensors] = {}

    def works(self, round_: int, states: States) -> list[LocalRound]:
        """Every client's round."""
        return [self._work(client, round_, states[GLOBAL]) for client in self._dataset.clients]

    def _work(self, client: str, round_: int, state: TrackState) -> LocalRound:
        random = generator(self._job.seed, client, round_)
        return LocalRound(
            client=client,
            stage=self._plan.stage,
            track=GLOBAL,
            round=round_,
            rounds=self._plan.rounds,
            seed=self._job.seed,
            examples=self._dataset.examples(client, "train"),
            subgroups=self._dataset.subgroups,
            received=self._plan.exchange.outgoing(
                client, round_, state.memory, random, self._plan.server_context
            ).tensors,
            kept=self._kept.get(client, {}),
            device=self.local_model.device,
            shared_state=state.shared_state,
            frozen_copies=self.local_model.frozen_copies,
        )

    def train(self, works: list[LocalRound]) -> None:
        """All of them."""
        for work in works:
            self._kept[work.client] = train_locally(self.local_model, self._objective, work, {}).kept


class Interleaved:
    """Between the loop's rounds: times it and the bare training, the first of a pair in turn.

    The order is loop, bare; bare, loop; and so on. The first round of each is not counted.
    """

    def __init__(self, bare: BareTraining, pairs: int) -> None:
        self._bare = bare
        self._pairs = pairs
        self._loop: list[Duration] = []
        self._alone: list[Duration] = []
        self._started = Duration(0, 0)

    def __call__(self, round_: int, states: States, blocks: Blocks) -> None:
        """After a round of the loop."""
        ended = self._now()
        if round_ == 1:
            self._train(round_, states)
        else:
            self._loop.append(ended.since(self._started))
        if round_ % 2 == 0:
            self._alone += [self._train(round_, states) for _ in range(min(2, self._pairs + 2 - round_))]
        self._started = self._now()

    def _train(self, round_: int, states: States) -> Duration:
        works = self._bare.works(round_, states)
        return measured(lambda: (self._bare.train(works), synchronise(self._bare.local_model.device)))

    def _now(self) -> Duration:
        synchronise(self._bare.local_model.device)
        return Duration.now()

    def pairs(self) -> list[tuple[Duration, Duration]]:
        """Durations of (loop, bare)."""
        return list(zip(self._loop, self._alone, strict=True))


def time_rounds(
    job: Job, dataset: NoisePictures, pairs: int, folder: Path
) -> list[tuple[Duration, Duration]]:
    """Durations of (loop, bare) of so many rounds of the job's only stage, which must have `pairs` + 1."""
    stage = job.stages[0]
    assert isinstance(stage, Pretrain)
    assert stage.rounds == pairs + 1
    engine = InProcessEngine(ClientAppParts(job, dataset, ClientStore(folder / "clients")), folder / "spool")
    with MetricsLog(folder / "metrics.jsonl", Console(quiet=True)) as metrics_log:
        model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels))
        setting = setting_of(job, dataset, model, engine, metrics_log, folder)
        network = stage.network(setting)
        plan = stage.plan_for(setting, network, None, labelled=False)
        weights = {name: tensor.clone() for name, tensor in float_state(network).items()}
        states = {GLOBAL: TrackState(weights, plan.aggregator.initial_state())}
        between = Interleaved(BareTraining(job, dataset, plan), pairs)
        run_rounds(
            plan, states, engine, metrics_log, Checkpoints(folder / "checkpoints", job.digest), between
        )
    engine.close()
    return between.pairs()
