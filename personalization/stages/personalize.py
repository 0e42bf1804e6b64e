"""The stage `personalize`: personal models, trained in rounds, one epoch of each chosen fairly.

Selection sees validation counts alone. Every epoch's validation accuracy is kept; of the weights only the
first epoch of each distinct accuracy, since among equals the earliest is chosen. Epoch 0 is the global model.

How a model trains is the strategy's. Whose it is says `per`: a subgroup's model is for all pictures of that
subgroup and is released; a client's is for that hospital's own pictures, and stays with the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from personalization.candidates import Candidates, candidate_files
from personalization.frontier import frontier_facts
from personalization.per_client import (
    client_tracks,
    evaluate_together,
    figures_of_own_models,
    keep_personal_models,
    without_own,
)
from personalization.selection import Selection, SelectionConfig, select
from personalization.strategies import STRATEGIES, Strategy
from registry.bundle.metrics.classification import accuracy
from training.aggregators import FedAvg
from training.checkpoint import Checkpoints
from training.client import Client
from training.compression.server_half import Compressor
from training.data import ToneSubgroups
from training.errors import JobError
from training.evaluation import Blocks, add_blocks, evaluate
from training.exchanges import NoExchange
from training.federation import EVALUATE, FIT, evaluate_tracks, run_rounds
from training.final_figures import TEST, answer_test, figures_on_test, told_of_clients
from training.fit import fit, load_merged
from training.messages import GLOBAL, Broadcast, Tensors, Update, unknown_question
from training.models import Classifier
from training.models.groups import float_state
from training.plan import Plan, States, Track, TrackState
from training.polling import Traffic
from training.seeds import derive_seed
from training.stages.base import Outcome, Setting, Stage
from training.stages.federate import Federate
from training.stages.rounds import divide, require_noise_fits


class Personalize(Stage):
    """Personal models and the choice of an epoch for each.

    Attributes:
        strategy: how a personal model trains.
        selection: the rule by which epochs are chosen.
        per: whose a personal model is.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"per"})
    summed: ClassVar[frozenset[str]] = frozenset({EVALUATE, TEST})
    stage: Literal["personalize"] = "personalize"
    strategy: Annotated[Strategy, STRATEGIES]
    selection: SelectionConfig = SelectionConfig()
    per: Literal["subgroup", "client"] = "subgroup"

    @property
    def tells_of_clients(self) -> bool:
        """Models of clients are judged at their own."""
        return self.per == "client"

    def inherit(self, earlier: Sequence[Stage]) -> "Personalize":
        """Train with the objective of the training stage before, unless the job gives one."""
        objectives = [stage.objective for stage in earlier if isinstance(stage, Federate)]
        strategy = self.strategy.inherit(objectives[-1] if objectives else None)
        return self.model_copy(update={"strategy": strategy})

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Train, choose, and judge on the test split."""
        start = before.models[GLOBAL]
        network = self.strategy.network(setting.model, derive_seed(setting.job.seed, setting.key, "network"))
        plan = self.plan(setting, network, start)
        candidates, traffic = self.train(setting, plan, initial_state(network, start))
        selection = select(candidates.accuracies, self.selection)
        setting.journal.say(f"{setting.key}: {selection.explanation}")
        chosen = {
            name: start if epoch == 0 else candidates.weights(name, epoch)
            for name, epoch in selection.epochs.items()
        }
        told = facts_of(selection, candidates)
        if self.per == "client":
            return self.outcome_per_client(setting, start, chosen, selection, told, traffic)
        models = {GLOBAL: start, **chosen}
        test = figures_on_test(setting, models, traffic)
        told["by_subgroup"] = {name: {"epoch": epoch} for name, epoch in selection.epochs.items()}
        return Outcome(models, rounds=self.strategy.epochs, traffic=traffic, test=test, facts=told)

    def train(self, setting: Setting, plan: Plan, begun: Tensors) -> tuple[Candidates, Traffic]:
        """Every epoch of every personal model, from the same state of its network."""
        states = {track.name: TrackState(begun, plan.aggregator.initial_state()) for track in plan.tracks}
        candidates = Candidates(setting.folder, setting.job.digest)
        traffic = Traffic()
        # Asked again after a resume: the answer is the same, and so is what it costs.
        blocks, _ = evaluate_tracks(plan, states, setting.engine, 0, traffic)
        self.keep_epoch(candidates, 0, states, blocks)

        def after_round(round_: int, states: States, blocks: Blocks) -> None:
            self.keep_epoch(candidates, round_, states, blocks)

        checkpoints = Checkpoints(setting.folder, setting.job.digest)
        _, spent = run_rounds(plan, states, setting.engine, setting.journal, checkpoints, after_round)
        return candidates, Traffic(traffic.down + spent.down, traffic.up + spent.up)

    def outcome_per_client(
        self,
        setting: Setting,
        start: Tensors,
        chosen: Mapping[str, Tensors],
        selection: Selection,
        told: Mapping[str, Any],
        traffic: Traffic,
    ) -> Outcome:
        """The global model for the stages that follow; every hospital's own in the stage's folder."""
        without = without_own(setting, chosen)
        models = {name: chosen.get(name, start) for name in (*chosen, *without)}
        keep_personal_models(setting, models, selection.epochs)
        by_client = figures_of_own_models(setting, models, traffic)
        if without:
            setting.journal.say(
                f"{setting.key}: {', '.join(without)} keep the global model, with too few labelled pictures "
                "to train on or to choose an epoch by"
            )
        setting.journal.say(
            f"{setting.key}: the models of clients are in {setting.folder / 'personal'}; the stages that "
            "follow go on with the global model, which is what is exported"
        )
        facts = {
            **told,
            **(told_of_clients(setting, by_client) if any(by_client.values()) else {}),
            "per": self.per,
            "epochs": dict(selection.epochs),
            "without_own": without,
        }
        test = add_blocks(by_client.values())
        return Outcome(
            {GLOBAL: start},
            rounds=self.strategy.epochs,
            traffic=traffic,
            test=test,
            facts=facts,
            stay_home=True,
        )

    def tidy(self, folder: Path) -> None:
        """Remove the candidates' weights: the chosen ones are in the outcome, or in `personal`."""
        for path in candidate_files(folder):
            path.unlink()

    def plan(self, setting: Setting, network: Classifier, start: Tensors) -> Plan:
        """One track per personal model.

        Args:
            setting: what the stage finds.
            network: what trains.
            start: the global model's state.

        Raises:
            JobError: when the job's subgroups are not skin tones, too few validation pictures exist to
            choose by, or the model lacks what the strategy trains.
        """
        tracks = subgroup_tracks(setting) if self.per == "subgroup" else client_tracks(setting)
        sync = self.strategy.sync()
        travels, stays = divide(sync, network)
        require_noise_fits(setting.job.privacy, sync, travels, stays)
        given = self.strategy.given(network, start)
        return Plan(
            stage=setting.key,
            rounds=self.strategy.epochs,
            tracks=tracks,
            travels=travels,
            stays=stays,
            exchange=NoExchange(),
            aggregator=FedAvg(),
            participation=1.0,
            min_clients=setting.job.engine.min_clients,
            average_at_end=sync.average_at_end,
            split="validation",
            seed=setting.job.seed,
            dismissed=setting.dismissed,
            prepare=(lambda ask, seed: given) if given else None,
            masks=setting.job.privacy.secure_aggregation,
            masked_counts=setting.job.privacy.masked_counts,
            compressor=Compressor(setting.job.compression),
            update_limit=setting.job.engine.update_limit,
        )

    def keep_epoch(self, candidates: Candidates, epoch: int, states: States, blocks: Blocks) -> None:
        """Keep what one epoch gave.

        Raises:
            JobError: when a model's validation pictures are too few to be counted.
        """
        uncounted = [name for name in states if name not in blocks]
        if uncounted and self.per == "client":
            raise JobError(
                f"no validation counts came from {', '.join(uncounted)}, so no epoch can be chosen; mend "
                "what the log tells of it and continue with --resume"
            )
        if uncounted:
            raise JobError(
                f"subgroup {', '.join(uncounted)} has fewer validation pictures at each client than "
                "privacy.min_count, so no epoch can be chosen for it; raise data.split.validation, merge it "
                "with another subgroup, or lower privacy.min_count"
            )
        figures = {name: (float(accuracy(blocks[name].point)), int(blocks[name].point.n)) for name in states}
        weights = {name: self.strategy.merged(state.weights) for name, state in states.items()}
        candidates.keep(epoch, figures, weights)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Train on one subgroup's or all of the client's pictures, or evaluate."""
        training = replace(client, bench=self.strategy.bench(client.bench))
        sync = self.strategy.sync()
        if broadcast.ask == FIT:
            return fit(
                broadcast,
                training,
                self.strategy.local_objective(),
                sync,
                rounds=self.strategy.epochs,
                subgroup=broadcast.track if self.per == "subgroup" else None,
            )
        if broadcast.ask == EVALUATE:
            load_merged(broadcast, training, sync)
            if training.bench is not client.bench:
                client.bench.load(self.strategy.merged(training.bench.take(training.bench.names)))
            return (
                evaluate(broadcast, client)
                if self.per == "subgroup"
                else evaluate_together(broadcast, client)
            )
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        raise unknown_question(broadcast)


def initial_state(network: Classifier, start: Tensors) -> Tensors:
    """The global model, with what the network has beside it."""
    fresh = {name: value.clone() for name, value in float_state(network).items() if name not in start}
    return {**start, **fresh} if fresh else start


def subgroup_tracks(setting: Setting) -> tuple[Track, ...]:
    """One track per subgroup, trained by the clients that hold it.

    Raises:
        JobError: when the job's subgroups are not skin tones, or one has no validation pictures.
    """
    if not isinstance(setting.job.data.subgroups, ToneSubgroups):
        raise JobError(
            "personalize needs data.subgroups by skin tone ({scale: ..., groups: ...}): a picture is "
            "routed by its declared tone, and other columns are reported only; or personalize per client"
        )
    census = setting.census
    tracks = tuple(
        Track(
            name,
            census.holders("train", [name]),
            census.hospitals("validation", [name]),
            (name,),
            sizes={client: census.held(client, "train", [name]) for client in census.counts},
        )
        for name in setting.subgroups
    )
    blind = [track.name for track in tracks if not track.judges]
    if blind:
        raise JobError(
            f"no validation pictures of subgroup {', '.join(blind)} to choose an epoch by; "
            "raise data.split.validation or merge the subgroup with another"
        )
    return tracks


def facts_of(selection: Selection, candidates: Candidates) -> dict[str, Any]:
    """What is told of the choice, in the summary and the report; names are those of the models' owners."""
    return {
        "selection": selection.config.model_dump(mode="json"),
        "validation_spread": selection.spread,
        "within_band": selection.within_band,
        "smallest_spread": selection.smallest_spread,
        "floor_binding": list(selection.floor_binding),
        "cost": selection.cost,
        "explanation": selection.explanation,
        "validation_accuracies": {name: dict(values) for name, values in candidates.accuracies.items()},
        "validation_pictures": dict(candidates.pictures),
        **frontier_facts(candidates.accuracies, selection.config),
    }
