"""The stage `federate`: clients train one global model together, in rounds."""

from typing import Literal

from pydantic import field_validator

from training.checkpoint import Checkpoints
from training.client import Client
from training.data import Split
from training.evaluation import evaluate
from training.federation import EVALUATE, run_rounds
from training.final_figures import TEST, answer_test, figures_on_test
from training.fit import load_merged
from training.messages import GLOBAL, Broadcast, Update
from training.objectives import Objective
from training.plan import Plan, TrackState
from training.stages.base import Outcome, Setting
from training.stages.rounds import RoundsStage, require_labels


class Federate(RoundsStage):
    """Rounds of local training and aggregation.

    Attributes:
        evaluate_on: the split evaluated after each round, for the learning curves; null leaves it out.
    """

    stage: Literal["federate"] = "federate"
    evaluate_on: Split | None = "validation"

    @field_validator("objective")
    @classmethod
    def _learns_the_classes(cls, objective: Objective) -> Objective:
        return require_labels(objective)

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Train the global model."""
        initial = TrackState(before.models[GLOBAL], self.aggregator.initial_state())
        plan = self.plan(setting)
        checkpoints = Checkpoints(setting.folder, setting.job.digest)
        states, traffic = run_rounds(plan, {GLOBAL: initial}, setting.engine, setting.journal, checkpoints)
        models = {GLOBAL: states[GLOBAL].weights}
        test = figures_on_test(setting, models, traffic)
        return Outcome(models, rounds=self.rounds, traffic=traffic, test=test)

    def plan(self, setting: Setting) -> Plan:
        """What stays the same through the rounds.

        Raises:
            QuorumError: when the job demands more answers than there are clients.
        """
        return self.plan_for(setting, setting.model, self.evaluate_on)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """Train, evaluate, or hand over what was kept."""
        if broadcast.ask == EVALUATE:
            load_merged(broadcast, client, self.sync)
            return evaluate(broadcast, client)
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        return self.train(broadcast, client)
