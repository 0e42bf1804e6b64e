"""A distribution from outside with one part of each kind: all that `CONTRIBUTING.md` says can be added."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from pydantic import Field
from torch import Tensor, nn

from clients.data.adapters.adapter import Adapter
from clients.data.manifest import Manifest, Row
from personalization.strategies.base import Training
from registry.gate_report import OVERRIDE, GateResult
from registry.gates.gate import Case, GateConfig
from training.algorithms.aggregators.base import AggregationWeights, Aggregator, Report, ServerState
from training.algorithms.client import Client
from training.algorithms.exchanges.base import PREFIX, Exchange, Parcel, ServerContext
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.codebook import Tokenizer
from training.algorithms.objectives.epochs import SubgroupLossTask, in_batches
from training.algorithms.sync import Sync, SyncAll
from training.jobs.stages.base import Stage, StageContext, StageResult
from training.messages import Broadcast, Tensors, Update, reply
from training.models import Classifier
from training.models.classifier import group_names, to_model_input
from training.models.patches import PatchGrid, patchify
from training.rounds.server.ask import Traffic, ask_all


class Median(Aggregator):
    """The model of the client with the median number of pictures; the server counts the rounds."""

    name: Literal["median"] = "median"

    def aggregate(
        self, reports: Sequence[Report], state: ServerState
    ) -> tuple[AggregationWeights, ServerState]:
        """All weight on one client."""
        ranked = sorted(reports, key=lambda report: report.total)
        return AggregationWeights({ranked[len(ranked) // 2].client: 1.0}), {
            "rounds": state.get("rounds", 0) + 1
        }


class Gentle(Objective):
    """Cross-entropy whose labels are smoothed the less, the more rounds a client has trained in."""

    name: Literal["gentle"] = "gentle"
    smoothing: float = Field(0.2, ge=0, lt=1)

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        return GentleTask(self, model, work)


class GentleTask(SubgroupLossTask):
    """One client's round; the client keeps how many it has trained in."""

    def __init__(self, config: Gentle, model: Classifier, work: LocalRound) -> None:
        super().__init__(work, work.examples)
        self._config, self._model, self._work = config, model, work
        self._rounds = work.kept.get("rounds", torch.zeros(1)) + 1

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Every picture once."""
        self._losses.reset()
        order = self._work.numpy_generator(f"order {epoch}").permutation(len(self._work.examples))
        for positions in in_batches(order, self._config.batch_size):
            yield Batch(to_model_input(self._work.examples.batch(positions), self._work.device), positions)

    def loss(self, batch: Batch) -> Tensor:
        """The mean over the batch."""
        labels = torch.from_numpy(self._work.examples.labels[batch.positions]).to(self._work.device)
        smoothing = self._config.smoothing / float(self._rounds)
        losses = F.cross_entropy(
            self._model(batch.images), labels, label_smoothing=smoothing, reduction="none"
        )
        self._losses.add(batch.positions, losses)
        return losses.mean()

    def outgoing(self) -> Tensors:
        """How many rounds it were, where somebody calls the roll."""
        return {"rounds": self._rounds} if "round" in self._work.received else {}

    def keep(self) -> Tensors:
        """The same, for the next round."""
        return {"rounds": self._rounds}


class HeadStays(Sync):
    """Everything travels but the linear classifier."""

    name: Literal["head-stays"] = "head-stays"

    def local(self, model: Classifier) -> frozenset[str]:
        """The head."""
        return group_names(model, "head")


class RollCall(Exchange):
    """The number of the round goes out, and in how many a client has trained comes back."""

    comes_back: ClassVar[bool] = True
    name: Literal["roll-call"] = "roll-call"

    def outgoing(
        self,
        client: str,
        round_: int,
        memory: Tensors,
        random: np.random.Generator,
        server_context: ServerContext,
    ) -> Parcel:
        """The number."""
        return Parcel({"round": torch.tensor([float(round_)])})

    def collect(self, update: Update, memory: Tensors, server_context: ServerContext) -> Tensors:
        """Each client's last answer."""
        return {**memory, update.client: update.tensors[PREFIX + "rounds"]}

    def facts(self, memory: Tensors) -> Mapping[str, int]:
        """The last answers."""
        return {"rounds_of": {client: int(rounds) for client, rounds in memory.items()}}


class Shades(Tokenizer):
    """A patch's token is how bright it is, in four steps."""

    name: Literal["shades"] = "shades"

    @property
    def vocabulary(self) -> int:
        """Four."""
        return 4

    def tokens(self, images: Tensor, grid: PatchGrid, network: nn.Module, given: Tensors) -> Tensor:
        """The step of every patch."""
        return (patchify(images, grid).mean(dim=-1) * 4).long().clamp(max=3)


class Briefly(Training):
    """One epoch, or as many as the job says, of the stage's own objective."""

    name: Literal["briefly"] = "briefly"
    epochs: int = Field(1, ge=1)

    def local_objective(self) -> Objective:
        """The training stage's."""
        return self.epoch

    def sync(self) -> Sync:
        """Everything travels."""
        return SyncAll()


class Roll(Stage):
    """How many training pictures each client has, of those that have enough to be told."""

    stage: Literal["roll"] = "roll"
    passes_figures_on: ClassVar[bool] = True

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Ask every client."""
        clients = context.census.holders("train", context.all_subgroups)
        traffic = Traffic()
        updates = ask_all(
            context.engine, [Broadcast(client, context.key, 0, "count") for client in clients], traffic
        )
        facts = {"pictures": {update.client: update.scalars["pictures"] for update in updates}}
        return StageResult(before.models, before.bundles, traffic=traffic, test=before.test, facts=facts)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """The count."""
        count = len(client.examples("train"))
        return reply(broadcast, scalars={"pictures": float(count if count >= client.min_count else 0)})


class Squares(Adapter):
    """Red squares are malignant, green ones benign; every other one is on light skin."""

    name: Literal["squares"] = "squares"
    makes_pictures: ClassVar[bool] = True
    count: int = Field(60, ge=6)

    def manifest(self, folder: Path) -> Manifest:
        """Draws the squares, and says what they are."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for number in range(self.count):
            red, shade = number % 3 == 0, 100 + number
            colour = (shade, 40, 40) if red else (40, shade, 40)
            Image.new("RGB", (16, 16), colour).save(folder / f"{number}.png")
            rows.append(
                Row(
                    image=f"{number}.png",
                    label="malignant" if red else "benign",
                    skin_tone="2" if number % 2 else "5",
                    skin_tone_scale="fitzpatrick",
                )
            )
        return Manifest.of(rows, folder)


class ClassesGate(GateConfig):
    """How many classes a model must tell apart."""

    name: Literal["classes"] = "classes"
    minimum: int = Field(ge=2)

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"classes that the model tells apart: at least {self.minimum}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        classes = min(len(manifest.labels) for manifest in case.manifests)
        detail = f"the model tells {classes} classes apart; at least {self.minimum} are asked for"
        if classes >= self.minimum:
            return GateResult(
                gate=self.name, verdict="passed", value=classes, limit=self.minimum, detail=detail
            )
        detail += f". Train on more classes, {OVERRIDE}"
        return GateResult(gate=self.name, verdict="refused", value=classes, limit=self.minimum, detail=detail)
