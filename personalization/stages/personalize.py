"""The stage `personalize`: a model per subgroup, fine-tuned in rounds, one epoch of it chosen fairly.

Selection sees validation counts alone. Every epoch's validation accuracy is kept; of the weights only the
first epoch of each distinct accuracy, since among equals the earliest is chosen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from personalization.candidates import Candidates, candidate_files
from personalization.selection import Selection, SelectionConfig, select
from personalization.strategies import STRATEGIES, Strategy
from registry.bundle.metrics.classification import accuracy
from training.aggregators import FedAvg
from training.checkpoint import Checkpoints
from training.client import Client
from training.data import ToneSubgroups
from training.errors import JobError
from training.evaluation import Blocks, evaluate
from training.exchanges import NoExchange
from training.federation import EVALUATE, FIT, evaluate_tracks, run_rounds
from training.final_figures import TEST, answer_test, figures_on_test
from training.fit import fit, load_merged
from training.messages import GLOBAL, Broadcast, Tensors, Update, unknown_question
from training.plan import Plan, States, Track, TrackState
from training.polling import Traffic
from training.stages.base import Outcome, Setting, Stage
from training.stages.federate import Federate
from training.stages.rounds import divide


class Personalize(Stage):
    """Fine-tuning per subgroup and the choice of an epoch for each.

    Attributes:
        strategy: how a subgroup's model trains.
        selection: the rule by which epochs are chosen.
    """

    stage: Literal["personalize"] = "personalize"
    strategy: Annotated[Strategy, STRATEGIES]
    selection: SelectionConfig = SelectionConfig()

    def inherit(self, earlier: Sequence[Stage]) -> "Personalize":
        """Fine-tune with the objective of the training stage before, unless the job gives one."""
        objectives = [stage.objective for stage in earlier if isinstance(stage, Federate)]
        strategy = self.strategy.inherit(objectives[-1] if objectives else None)
        return self.model_copy(update={"strategy": strategy})

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Train, choose, and judge on the test split."""
        start = before.models[GLOBAL]
        plan = self.plan(setting)
        states = {track.name: TrackState(start, plan.aggregator.initial_state()) for track in plan.tracks}
        candidates = Candidates(setting.folder, setting.job.digest)
        traffic = Traffic()
        # Asked again after a resume: the answer is the same, and so is what it costs.
        blocks, _ = evaluate_tracks(plan, states, setting.engine, 0, traffic)
        keep_epoch(candidates, 0, states, blocks)

        def after_round(round_: int, states: States, blocks: Blocks) -> None:
            keep_epoch(candidates, round_, states, blocks)

        checkpoints = Checkpoints(setting.folder, setting.job.digest)
        _, spent = run_rounds(plan, states, setting.engine, setting.journal, checkpoints, after_round)
        traffic.up, traffic.down = traffic.up + spent.up, traffic.down + spent.down

        selection = select(candidates.accuracies, self.selection)
        setting.journal.say(f"{setting.key}: {selection.explanation}")
        models: dict[str, Tensors] = {GLOBAL: start}
        for name, epoch in selection.epochs.items():
            models[name] = start if epoch == 0 else candidates.weights(name, epoch)
        test = figures_on_test(setting, models, traffic)
        facts = facts_of(selection, candidates)
        return Outcome(models, rounds=plan.rounds, traffic=traffic, test=test, facts=facts)

    def tidy(self, folder: Path) -> None:
        """Remove the candidates' weights: the chosen ones are in the outcome."""
        for path in candidate_files(folder):
            path.unlink()

    def plan(self, setting: Setting) -> Plan:
        """One track per subgroup, trained by the clients that hold it.

        Raises:
            JobError: when the job's subgroups are not skin tones, or too few validation pictures exist to
            choose by.
        """
        if not isinstance(setting.job.data.subgroups, ToneSubgroups):
            raise JobError(
                "personalize needs data.subgroups by skin tone ({scale: ..., groups: ...}): a picture is "
                "routed by its declared tone, and other columns are reported only"
            )
        census = setting.census
        tracks = tuple(
            Track(name, census.holders("train", [name]), census.hospitals("validation", [name]), (name,))
            for name in setting.subgroups
        )
        blind = [track.name for track in tracks if not track.judges]
        if blind:
            raise JobError(
                f"no validation pictures of subgroup {', '.join(blind)} to choose an epoch by; "
                "raise data.split.validation or merge the subgroup with another"
            )
        travels, stays = divide(self.strategy.sync(), setting.model)
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
            average_at_end=True,
            split="validation",
            seed=setting.job.seed,
        )

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Train on one subgroup's pictures, or evaluate."""
        if broadcast.ask == FIT:
            return fit(
                broadcast,
                client,
                self.strategy.local_objective(),
                self.strategy.sync(),
                rounds=self.strategy.epochs,
                subgroup=broadcast.track,
            )
        if broadcast.ask == EVALUATE:
            load_merged(broadcast, client, self.strategy.sync())
            return evaluate(broadcast, client)
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        raise unknown_question(broadcast)


def keep_epoch(candidates: Candidates, epoch: int, states: States, blocks: Blocks) -> None:
    """Keep what one epoch gave.

    Raises:
        JobError: when a subgroup's validation pictures are too few to be counted.
    """
    uncounted = [name for name in states if name not in blocks]
    if uncounted:
        raise JobError(
            f"subgroup {', '.join(uncounted)} has fewer validation pictures at each client than "
            "privacy.min_count, so no epoch can be chosen for it; raise data.split.validation, merge it with "
            "another subgroup, or lower privacy.min_count"
        )
    figures = {name: (float(accuracy(blocks[name].point)), int(blocks[name].point.n)) for name in states}
    candidates.keep(epoch, figures, {name: state.weights for name, state in states.items()})


def facts_of(selection: Selection, candidates: Candidates) -> dict[str, Any]:
    """What is told of the choice, in the summary and the report."""
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
        "by_subgroup": {name: {"epoch": epoch} for name, epoch in selection.epochs.items()},
    }
