"""The stage `export`: every model becomes a graph, and hospitals check that nothing changed."""

from copy import deepcopy
from importlib.metadata import version
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from registry.bundle.schema import BundleManifest, Lineage, ModelFile, Subgroup
from training.client import Client
from training.data import ToneSubgroups
from training.errors import ExportError
from training.export import export_graph, largest_difference
from training.final_figures import TEST, answer_test, figures_on_test
from training.graph_message import GRAPH, as_bytes, as_tensor
from training.messages import GLOBAL, Broadcast, Tensors, Update, named, prefixed, reply, unknown_question
from training.polling import Traffic, ask_all
from training.stages.base import Graded, Outcome, Setting, Stage
from training.stages.lineage import weights_digest, with_parents

PARITY = "parity"
WEIGHTS = "weights/"
PARITY_PICTURES = 64


class Export(Stage):
    """ONNX graphs of all models.

    Attributes:
        tolerance: the largest difference in any probability between ONNX Runtime and torch that is accepted.
    """

    stage: Literal["export"] = "export"
    passes_figures_on: ClassVar[bool] = True
    summed: ClassVar[frozenset[str]] = frozenset({TEST})
    tolerance: float = Field(1e-4, gt=0, lt=1)

    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """Export each model and have it checked.

        Where the figures so far are of models that stay at their clients, the exported one is judged here.

        Raises:
            ExportError: naming the model, the client and the difference.
        """
        model, traffic = deepcopy(setting.model), Traffic()
        bundles: dict[str, Graded] = {}
        differences: dict[str, float] = {}
        for name, weights in before.models.items():
            setting.journal.say(f"{setting.key}: {name}")
            model.load_state_dict(weights, strict=False)
            graph = export_graph(model, setting.job.data.image_size)
            differences[name] = self.check(setting, name, weights, graph, traffic)
            bundles[name] = Graded(manifest(setting, name, graph, differences[name]), graph)
        facts = {
            "by_subgroup": before.facts.get("by_subgroup", {}),
            "parity": differences,
            "tolerance": self.tolerance,
        }
        test = figures_on_test(setting, before.models, traffic) if before.stay_home else before.test
        return Outcome(before.models, with_parents(bundles), traffic=traffic, test=test, facts=facts)

    def check(self, setting: Setting, name: str, weights: Tensors, graph: bytes, traffic: Traffic) -> float:
        """The largest difference that any client finds."""
        tensors = {GRAPH: as_tensor(graph), **prefixed(weights, WEIGHTS)}
        clients = setting.census.holders("validation", setting.places) or setting.census.holders(
            "train", setting.places
        )
        broadcasts = [Broadcast(client, setting.key, 0, PARITY, name, tensors) for client in clients]
        updates = ask_all(setting.engine, broadcasts, traffic)
        worst = max(updates, key=lambda update: update.scalars["difference"])
        if worst.scalars["difference"] > self.tolerance:
            raise ExportError(
                f"the exported model {name} differs from torch by {worst.scalars['difference']:.2g} in a "
                f"probability at {worst.client}; allowed is {self.tolerance:g} (export.tolerance). "
                "The model uses an operation that ONNX computes otherwise: choose another model.name"
            )
        return worst.scalars["difference"]

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """The difference between the graph and torch on this client's pictures, or figures of the model."""
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        if broadcast.ask != PARITY:
            raise unknown_question(broadcast)
        client.bench.load(named(broadcast.tensors, WEIGHTS))
        examples = client.examples("validation")
        if not len(examples):
            examples = client.examples("train")
        images = examples.batch(np.arange(min(len(examples), PARITY_PICTURES)))
        graph = as_bytes(broadcast.tensors)
        difference = largest_difference(graph, client.bench.model, images, torch.get_num_threads())
        return reply(broadcast, scalars={"difference": difference})


def manifest(setting: Setting, name: str, graph: bytes, parity: float | None = None) -> BundleManifest:
    """The manifest of a model that is not calibrated: it promises nothing and refers everything."""
    return BundleManifest(
        model=setting.job.name,
        file=ModelFile.of(graph),
        labels=tuple(setting.labels),
        picture=setting.job.data.picture,
        subgroup=subgroup_of(setting, name),
        parity=parity,
        lineage=Lineage(
            job=setting.job.digest,
            recipe=setting.job.about.system if setting.job.about else setting.job.name,
            data={"all": setting.fingerprint},
            seed=setting.job.seed,
            parent=weights_digest(setting.job.model),
            code_version=version("dermfed"),
        ),
    )


def subgroup_of(setting: Setting, name: str) -> Subgroup:
    """Whom a model is for: everybody, or the declared skin tones of its subgroup."""
    groups = setting.job.data.subgroups
    if name == GLOBAL or not isinstance(groups, ToneSubgroups):
        return Subgroup()
    return Subgroup(name=name, scale=groups.scale, values=groups.groups[name])
