"""The stage `personalize`: fine-tune personal models in rounds, and select one epoch of each fairly.

Selection sees validation counts alone. Every epoch's validation accuracy is kept; of the weights only the
first epoch of each distinct accuracy, since among equals the earliest is chosen. Epoch 0 is the global model.

How a model trains is the strategy's. Whose it is says `per`: a subgroup's model is for all pictures of that
subgroup and is released; a client's is for that hospital's own pictures, and stays with the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import model_validator

from personalization.selection import (
    Proof,
    Selection,
    SelectionConfig,
    frontier_facts,
    prove,
    select,
    with_proofs,
)
from personalization.stages.personal_models import (
    Candidates,
    answer_compare,
    ask_compared,
    candidate_files,
    client_tracks,
    evaluate_together,
    figures_of_own_models,
    keep_personal_models,
    without_own,
)
from personalization.strategies import STRATEGIES, Shrink, Strategy
from personalization.strategies.base import EVALUATIONS, STRENGTHS
from registry.bundle.labels import malignant_classes
from registry.bundle.lesion_counts import PairedCounts
from registry.bundle.metrics.classification import accuracy
from training.algorithms.aggregators import FedAvg
from training.algorithms.client import Client
from training.algorithms.exchanges import NoExchange
from training.data.dataset import Split
from training.errors import JobError
from training.jobs.stages.base import PlannedStage, Stage, StageContext, StageResult
from training.jobs.stages.features import HEAD_SUMS, answer_sum, fit_subgroup, head_of
from training.jobs.stages.federate import Federate
from training.jobs.stages.final_test import answer_test, client_facts, figures_on_test
from training.jobs.stages.rounds import divide, require_noise_fits
from training.messages import GLOBAL, Broadcast, Tensors, Update, unknown_request
from training.models import Classifier
from training.models.classifier import float_state
from training.models.probe import behind_encoder
from training.privacy.compression import Compressor
from training.privacy.settings import CountsConfig, PrivacyConfig
from training.randomness import derive_seed
from training.rounds.census import Census, CensusBounds
from training.rounds.client.embed import features_before, on_features
from training.rounds.client.evaluate import evaluate
from training.rounds.client.fit import fit, load_merged
from training.rounds.requests import COMPARE, EVALUATE, FIT, TEST, Blocks, EvaluateRequest, add_blocks
from training.rounds.server.ask import Traffic
from training.rounds.server.head_fit import KeptSums
from training.rounds.server.loop import evaluate_tracks
from training.rounds.server.plan import Plan, States, Track, TrackState


class Personalize(Stage):
    """Personal models and the choice of an epoch for each.

    Attributes:
        strategy: how a personal model trains.
        selection: the rule by which epochs are chosen.
        per: whose a personal model is.
    """

    summed: ClassVar[frozenset[str]] = frozenset({EVALUATE, TEST, COMPARE, *HEAD_SUMS})
    quorate: ClassVar[frozenset[str]] = frozenset({TEST})
    stage: Literal["personalize"] = "personalize"
    strategy: Annotated[Strategy, STRATEGIES]
    selection: SelectionConfig = SelectionConfig()
    per: Literal["subgroup", "client"] = "subgroup"

    @model_validator(mode="after")
    def _heads_are_of_subgroups(self) -> "Personalize":
        if self.needs_folds and self.per == "client":
            raise ValueError(
                f"strategy {self.strategy.name} fits heads of subgroups, and per is client; remove per, or "
                "choose another strategy"
            )
        return self

    @property
    def num_rounds(self) -> int:
        """One an epoch."""
        return self.strategy.epochs

    @property
    def without_cases(self) -> str | None:
        """The strategy, if it trains a part of a model of single pictures."""
        return None if self.strategy.takes_cases else f"strategy {self.strategy.name}"

    @property
    def one_encoder(self) -> bool:
        """Epochs run on pictures, through the whole model."""
        return self.strategy.epochs > 0

    @property
    def routes_by_tone(self) -> bool:
        """Models of subgroups answer for declared tones."""
        return self.per == "subgroup"

    @property
    def needs_client_figures(self) -> bool:
        """Models of clients are judged at their own."""
        return self.per == "client"

    @property
    def needs_folds(self) -> bool:
        """The strategy, if it fits heads to convergence."""
        return isinstance(self.strategy, Shrink)

    @property
    def compares_models(self) -> bool:
        """Where an epoch must be proven better than the global model."""
        return (self.strategy.epochs > 0 or self.needs_folds) and self.selection.asks_proof is not None

    def inherit(self, earlier: Sequence[Stage]) -> "Personalize":
        """Train with the objective of the training stage before, unless the job gives one."""
        objectives = [stage.objective for stage in earlier if isinstance(stage, Federate)]
        strategy = self.strategy.inherit(objectives[-1] if objectives else None)
        return self.model_copy(update={"strategy": strategy})

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Train, select, and evaluate on the test split."""
        start = before.models[GLOBAL]
        if isinstance(self.strategy, Shrink):
            return self.shrink(context, before)
        if self.chooses_nothing(context.census):
            facts = {"by_subgroup": {name: {"epoch": 0} for name in context.subgroups}}
            return self.outcome(context, {}, before, Traffic(), facts)
        network = self.network(context)
        plan = self.plan(context, network, start)
        candidates, traffic = self.train(context, plan, initial_state(network, start))
        selection = select(candidates.accuracies, self.selection)
        proofs = self.proofs(context, plan, candidates, start, selection, traffic)
        selection = with_proofs(selection, candidates.accuracies, proofs)
        context.metrics_log.log(f"{context.key}: {selection.explanation}")
        chosen = {
            track.name: candidates.weights(track.name, epoch)
            if (epoch := selection.epochs.get(track.name, 0))
            else start
            for track in plan.tracks
        }
        facts = facts_of(selection, candidates)
        if self.per == "client":
            return self.outcome_per_client(context, start, chosen, selection, facts, traffic)
        facts["by_subgroup"] = {name: {"epoch": selection.epochs.get(name, 0)} for name in chosen}
        return self.outcome(context, chosen, before, traffic, facts)

    def shrink(self, context: StageContext, before: StageResult) -> StageResult:
        """Fit each subgroup's head towards the global one, and keep those that are proven better."""
        start, network, traffic = before.models[GLOBAL], behind_encoder(context.model), Traffic()
        weight, bias = head_of(network)
        towards = [{name: start[name] for name in (weight, bias)}, *before.folds[GLOBAL]]
        heads: dict[str, Sequence[Tensors]] = {}
        by_subgroup: dict[str, Any] = {}
        proofs: dict[str, Any] = {}
        for name in context.subgroups:
            own, strength, fitted = fit_subgroup(
                context, network, name, towards, STRENGTHS, EVALUATIONS, traffic
            )
            by_subgroup[name] = {"epoch": 0, "strength": strength, **fitted}
            proof = None
            if strength is not None and self.selection.asks_proof is not None:
                request = EvaluateRequest(split="train", subgroups=(name,))
                pairs = list(zip(towards[1:], own[1:], strict=True))
                judges = context.judges("train", [name])
                counts = ask_compared(context, name, judges, request, pairs, traffic)
                proof = self.proof(context, counts, 1, len(STRENGTHS))
                proofs[name] = proof.to_json()
            if strength is None:
                said = "keeps the global head"
            elif proof is None or proof.holds:
                heads[name], said = own, f"has a head of its own, of strength {strength:g}"
            else:
                said = f"keeps the global head: strength {strength:g} is not taken, {proof.reason}"
            context.metrics_log.log(f"{context.key}: {name} {said}")
        chosen = {name: {**start, **own[0]} for name, own in heads.items()}
        facts = {"by_subgroup": by_subgroup, "proofs": proofs}
        done = self.outcome(context, chosen, before, traffic, facts)
        return replace(done, folds={**done.folds, **{name: tuple(own[1:]) for name, own in heads.items()}})

    def chooses_nothing(self, census: Census) -> bool:
        """Whether every subgroup is to have the global model, with nothing to judge it by on the way."""
        judged = census.judged("validation", census.subgroups)
        return self.per == "subgroup" and not self.strategy.epochs and not judged

    def outcome(
        self,
        context: StageContext,
        chosen: Mapping[str, Tensors],
        before: StageResult,
        traffic: Traffic,
        facts: Mapping[str, Any],
    ) -> StageResult:
        """The global model and those of subgroups, by default the global one, with their test figures."""
        start = before.models[GLOBAL]
        models = {GLOBAL: start, **dict.fromkeys(context.subgroups, start), **chosen}
        folds = dict.fromkeys(models, before.folds[GLOBAL]) if before.folds else {}
        test = before.test
        of_start = list(before.models) == [GLOBAL] and not before.tests_local_models
        if not test or not of_start or any(model is not start for model in models.values()):
            test = figures_on_test(context, models, traffic)
        return StageResult(
            models, rounds=self.strategy.epochs, traffic=traffic, test=test, facts=facts, folds=folds
        )

    def network(self, context: StageContext) -> Classifier:
        """The network to train; weights that the global model lacks are initialised from the job's seed."""
        return self.strategy.network(context.model, derive_seed(context.job.seed, context.key, "network"))

    def plan_ahead(self, context: StageContext) -> PlannedStage | None:
        """Plan the epochs, from the model as it is before the first stage."""
        if isinstance(self.strategy, Shrink):
            head_of(behind_encoder(context.model))
            return None
        if self.chooses_nothing(context.census):
            return None
        network, start = self.network(context), float_state(context.model)
        plan, state = self.plan(context, network, start), initial_state(network, start)
        if not self.strategy.epochs:
            return PlannedStage(plan, state, epochs=0, batch_size=1)
        return PlannedStage(plan, state, epochs=1, batch_size=self.strategy.local_objective().batch_size)

    def proofs(
        self,
        context: StageContext,
        plan: Plan,
        candidates: Candidates,
        start: Tensors,
        selection: Selection,
        traffic: Traffic,
    ) -> dict[str, Proof]:
        """What is shown of each epoch that was chosen in place of the global model, if the rule asks."""
        proofs: dict[str, Proof] = {}
        for track in plan.tracks:
            epoch = selection.epochs.get(track.name, 0)
            if epoch and self.selection.asks_proof is not None:
                request = EvaluateRequest(split="validation", subgroups=track.subgroups)
                pair = start, candidates.weights(track.name, epoch)
                counts = ask_compared(context, track.name, track.judges, request, [pair], traffic)
                tried = len(candidates.accuracies[track.name]) - 1
                proofs[track.name] = self.proof(context, counts, epoch, tried)
        return proofs

    def proof(self, context: StageContext, counts: PairedCounts, epoch: int, tried: int) -> Proof:
        """What is shown of a model that was chosen among so many, by its answers and the global model's."""
        assert self.selection.asks_proof is not None, "a proof is asked for"
        malignant = malignant_classes(context.labels)
        both = bool(malignant.any() and not malignant.all())
        return prove(counts, epoch, tried, self.selection.asks_proof, has_malignancy=both)

    def train(self, context: StageContext, plan: Plan, begun: Tensors) -> tuple[Candidates, Traffic]:
        """Train every epoch of every personal model, from the same state of its network."""
        states = {track.name: TrackState(begun, plan.aggregator.initial_state()) for track in plan.tracks}
        candidates = Candidates(context.folder, context.digest)
        traffic = Traffic()
        # Asked again after a resume: the answer is the same, and so is what it costs.
        blocks, _ = evaluate_tracks(plan, states, context.engine, 0, traffic)
        self.keep_epoch(candidates, 0, states, blocks)
        if uncounted := [track.name for track in plan.tracks if track.name not in blocks]:
            context.metrics_log.log(
                f"{context.key}: {', '.join(uncounted)} will keep the global model: no client has as many "
                "validation pictures of it as privacy.min_count asks for, so no epoch can be chosen; raise "
                "data.split.validation, or merge it with another subgroup"
            )

        def after_round(round_: int, states: States, blocks: Blocks) -> None:
            if plan.evaluates(round_):
                self.keep_epoch(candidates, round_, states, blocks)

        _, spent = context.run_rounds(plan, states, after_round)
        return candidates, Traffic(traffic.down + spent.down, traffic.up + spent.up)

    def outcome_per_client(
        self,
        context: StageContext,
        start: Tensors,
        chosen: Mapping[str, Tensors],
        selection: Selection,
        facts: Mapping[str, Any],
        traffic: Traffic,
    ) -> StageResult:
        """The global model for the stages that follow; every hospital's own in the stage's folder."""
        without = without_own(context, chosen)
        models = {name: chosen.get(name, start) for name in (*chosen, *without)}
        keep_personal_models(context, models, selection.epochs)
        by_client = figures_of_own_models(context, models, traffic)
        if without:
            context.metrics_log.log(
                f"{context.key}: {', '.join(without)} keep the global model, with too few labelled pictures "
                "to train on or to choose an epoch by"
            )
        context.metrics_log.log(
            f"{context.key}: the models of clients are in {context.folder / 'personal'}; the stages that "
            "follow go on with the global model, which is what is exported"
        )
        facts = {
            **facts,
            **(client_facts(context, by_client) if any(by_client.values()) else {}),
            "per": self.per,
            "epochs": dict(selection.epochs),
            "without_own": without,
        }
        test = add_blocks(by_client.values())
        return StageResult(
            {GLOBAL: start},
            rounds=self.strategy.epochs,
            traffic=traffic,
            test=test,
            facts=facts,
            tests_local_models=True,
        )

    def evaluation_units(self, counts: CountsConfig) -> Mapping[Split, int]:
        """One matrix an epoch that is evaluated, and one of the global model."""
        return {"validation": 1 + len(counts.evaluated(self.strategy.epochs))}

    @property
    def test_units(self) -> int:
        """A matrix and a histogram: each picture is answered by one model."""
        return 2

    def tidy(self, folder: Path) -> None:
        """Remove the candidates' weights: the chosen ones are in the outcome, or in `personal`."""
        for path in candidate_files(folder):
            path.unlink()
        KeptSums(folder, "").forget()

    def plan(self, context: StageContext, network: Classifier, start: Tensors) -> Plan:
        """One track per personal model.

        Args:
            context: what the stage finds.
            network: what trains.
            start: the global model's state.

        Raises:
            JobError: when too few validation pictures exist to choose by, or the model lacks what the
            strategy trains.
        """
        tracks = subgroup_tracks(context) if self.per == "subgroup" else client_tracks(context)
        sync = self.strategy.sync()
        shared, local = divide(sync, network)
        require_noise_fits(context.job.privacy, sync, shared, local)
        given = self.strategy.given(network, start)
        return Plan(
            stage=context.key,
            rounds=self.strategy.epochs,
            tracks=tracks,
            shared=shared,
            local=local,
            exchange=NoExchange(),
            aggregator=FedAvg(),
            participation=1.0,
            min_clients=context.job.engine.min_clients,
            average_at_end=sync.average_at_end,
            split="validation",
            seed=context.job.seed,
            dismissed=context.dismissed,
            prepare=(lambda ask, seed: given) if given else None,
            masks=context.job.privacy.secure_aggregation,
            masked_counts=context.job.privacy.masked_counts,
            compressor=Compressor(context.job.compression),
            update_limit=context.job.engine.update_limit,
            bounds=CensusBounds(context.census),
            evaluated=context.job.privacy.counts.evaluated(self.strategy.epochs),
        )

    def keep_epoch(self, candidates: Candidates, epoch: int, states: States, blocks: Blocks) -> None:
        """Keep the accuracies and weights of one epoch, of each model whose validation pictures are counted.

        Raises:
            JobError: when no model's are, or a hospital's own are not.
        """
        uncounted = [name for name in states if name not in blocks]
        if uncounted and self.per == "client":
            raise JobError(
                f"no validation counts came from {', '.join(uncounted)}, so no epoch can be chosen; mend "
                "what the log tells of it and continue with --resume"
            )
        if len(uncounted) == len(states):
            raise JobError(
                "no subgroup has as many validation pictures at any client as privacy.min_count asks for, so "
                "no epoch can be chosen; raise data.split.validation, merge subgroups, or lower "
                "privacy.min_count"
            )
        states = {name: state for name, state in states.items() if name in blocks}
        points = {name: blocks[name].point for name in states}
        # Noise may leave no picture; a model of which nothing is known is not chosen.
        figures = {
            name: (float(accuracy(point)) if point.n else 0.0, int(point.n)) for name, point in points.items()
        }
        weights = {name: self.strategy.merged(state.weights) for name, state in states.items()}
        candidates.keep(epoch, figures, weights)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Train on one subgroup's or all of the client's pictures, or evaluate."""
        if isinstance(self.strategy, Shrink) and broadcast.ask in (COMPARE, *HEAD_SUMS):
            learner = on_features(client, features_before(client, broadcast.stage))
            if broadcast.ask == COMPARE:
                return answer_compare(broadcast, learner, in_folds=True)
            return answer_sum(broadcast, learner)
        training = replace(client, local_model=self.strategy.local_model(client.local_model))
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
            if training.local_model is not client.local_model:
                client.local_model.load(
                    self.strategy.merged(training.local_model.take(training.local_model.names))
                )
            return (
                evaluate(broadcast, client)
                if self.per == "subgroup"
                else evaluate_together(broadcast, client)
            )
        if broadcast.ask == COMPARE:
            return answer_compare(broadcast, client, together=self.per == "client")
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        raise unknown_request(broadcast)


def initial_state(network: Classifier, start: Tensors) -> Tensors:
    """The global model's tensors and the additional tensors of the network."""
    fresh = {name: value.clone() for name, value in float_state(network).items() if name not in start}
    return {**start, **fresh} if fresh else start


def subgroup_tracks(context: StageContext) -> tuple[Track, ...]:
    """One track per subgroup, trained by the clients that hold it.

    Raises:
        JobError: when no epoch can be chosen for one.
    """
    census = context.census
    require_judges(census, context.job.privacy)
    return tuple(
        Track(
            name,
            census.holders("train", [name]),
            context.judges("validation", [name]),
            (name,),
            sizes={client: census.held(client, "train", [name]) for client in census.counts},
        )
        for name in context.subgroups
    )


def require_judges(census: Census, privacy: PrivacyConfig) -> None:
    """Refuse subgroups of which no epoch can be chosen.

    Raises:
        JobError: when one has no labelled validation pictures, or no hospital may tell of any subgroup's.
    """
    blind = [name for name in census.subgroups if not census.hospitals("validation", [name])]
    if blind:
        raise JobError(
            f"personalize: no validation pictures of subgroup {', '.join(blind)} to choose an epoch by; "
            "raise data.split.validation or merge the subgroup with another"
        )
    least = max(privacy.min_count, 1)
    if not census.can_disclose("validation", census.subgroups, least):
        raise JobError(
            f"personalize: no hospital holds {least} labelled validation pictures of any subgroup "
            "(privacy.min_count), so no epoch can be chosen; raise data.split.validation, merge subgroups, "
            "or lower privacy.min_count"
        )


def facts_of(selection: Selection, candidates: Candidates) -> dict[str, Any]:
    """The facts of the selection for summary and report, by the names of the models' owners."""
    return {
        "selection": selection.config.model_dump(mode="json"),
        "validation_spread": selection.spread,
        "within_band": selection.within_band,
        "smallest_spread": selection.smallest_spread,
        "floor_binding": list(selection.floor_binding),
        "cost": selection.cost,
        "proofs": {name: proof.to_json() for name, proof in selection.proofs.items()},
        "explanation": selection.explanation,
        "validation_accuracies": {name: dict(values) for name, values in candidates.accuracies.items()},
        "validation_pictures": dict(candidates.pictures),
        **frontier_facts(candidates.accuracies, selection.config),
    }
