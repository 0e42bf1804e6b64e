"""The stage `export`: every model becomes an ONNX graph, which hospitals compare with torch."""

from copy import deepcopy
from importlib.metadata import version
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.labels import Subgroup
from registry.bundle.manifest import BundleManifest, Lineage, ModelFile
from training.algorithms.client import Client
from training.algorithms.client import weights_digest as tensors_digest
from training.data.dataset import Examples, Split
from training.data.subgroups import ToneGroups
from training.errors import ExportError
from training.jobs.stages.base import BundleDraft, Stage, StageContext, StageResult
from training.jobs.stages.final_test import answer_test, figures_on_test
from training.jobs.stages.lineage import encoder_origin, weights_digest, with_parents
from training.messages.message import (
    GLOBAL,
    Broadcast,
    Tensors,
    Update,
    named,
    prefixed,
    reply,
    unknown_question,
)
from training.models.export import GRAPH, as_bytes, as_tensor, export_graph, largest_differences
from training.models.graph_parts import split_graph
from training.rounds.requests import TEST
from training.rounds.server.ask import Traffic, ask_all

PARITY = "parity"
WEIGHTS = "weights/"
PARITY_PICTURES = 64
DIFFERENCE = "difference"


class Export(Stage):
    """ONNX graphs of all models.

    Attributes:
        tolerance: the largest difference in any probability between ONNX Runtime and torch that is accepted.
    """

    stage: Literal["export"] = "export"
    passes_figures_on: ClassVar[bool] = True
    summed: ClassVar[frozenset[str]] = frozenset({TEST})
    quorate: ClassVar[frozenset[str]] = frozenset({TEST, PARITY})
    tolerance: float = Field(1e-4, gt=0, lt=1)

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Export each model and have it checked.

        Where the figures so far are of models that stay at their clients, the exported one is judged here.

        Raises:
            ExportError: naming the model, the client and the difference.
        """
        model, traffic = deepcopy(context.model), Traffic()
        heads: dict[str, bytes] = {}
        checked: dict[str, tuple[bytes, float | None]] = {}  # by weights: subgroups may share them
        bundles: dict[str, BundleDraft] = {}
        differences: dict[str, float] = {}

        def without_fold(weights: Tensors) -> bytes:
            key = tensors_digest(weights)
            if key not in heads:
                model.load_state_dict(weights, strict=False)
                heads[key] = split_graph(export_graph(model, context.job.data.image_size)).head
            return heads[key]

        context.metrics_log.progress.begin(context.key, len(before.models), rounds=False)
        for name, weights in context.metrics_log.progress.each(before.models.items()):
            context.metrics_log.log(f"{context.key}: {name}")
            key = tensors_digest(weights)
            if key not in checked:
                model.load_state_dict(weights, strict=False)
                graph = export_graph(model, context.job.data.image_size)
                checked[key] = graph, self.check(context, name, weights, graph, traffic)
            graph, difference = checked[key]
            differences |= {} if difference is None else {name: difference}
            folds = tuple(without_fold({**weights, **own}) for own in before.folds.get(name, ()))
            bundles[name] = BundleDraft(manifest(context, name, graph, difference), graph, folds)
        context.metrics_log.end()
        facts = {
            "by_subgroup": before.facts.get("by_subgroup", {}),
            "parity": differences,
            "tolerance": self.tolerance,
        }
        test = figures_on_test(context, before.models, traffic) if before.stay_home else before.test
        return StageResult(
            before.models, with_parents(bundles, context.attest), traffic=traffic, test=test, facts=facts
        )

    def check(
        self, context: StageContext, name: str, weights: Tensors, graph: bytes, traffic: Traffic
    ) -> float | None:
        """The largest difference that any client tells; None where all have pictures of too few patients."""
        tensors = {GRAPH: as_tensor(graph), **prefixed(weights, WEIGHTS)}
        # How far two programs differ is told without noise, so in a job with noise, of training pictures.
        split: Split = "validation" if context.job.privacy.noisy_counts is None else "train"
        clients = context.census.holders(split, context.all_subgroups) or context.census.holders(
            "train", context.all_subgroups
        )
        broadcasts = [
            Broadcast(client, context.key, 0, PARITY, name, tensors, {"split": split}) for client in clients
        ]
        updates = ask_all(context.engine, broadcasts, traffic, quorum=context.quorum)
        told = {each.client: each.scalars[DIFFERENCE] for each in updates if DIFFERENCE in each.scalars}
        if not told:
            context.metrics_log.log(
                f"{context.key}: {name} was compared with torch nowhere: no client has pictures of "
                "privacy.min_count patients to tell of"
            )
            return None
        client, worst = max(told.items(), key=lambda each: each[1])
        if worst > self.tolerance:
            raise ExportError(
                f"the exported model {name} differs from torch by {worst:.2g} in a probability at {client}; "
                f"allowed is {self.tolerance:g} (export.tolerance). The model uses an operation that ONNX "
                "computes otherwise: choose another model.name"
            )
        return worst

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """The difference between the graph and torch on this client's pictures, or figures of the model."""
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        if broadcast.ask != PARITY:
            raise unknown_question(broadcast)
        client.local_model.load(named(broadcast.tensors, WEIGHTS))
        some = compared(client, "train" if broadcast.options.get("split") == "train" else "validation")
        if some is None:
            return reply(broadcast)
        graph, threads = as_bytes(broadcast.tensors), torch.get_num_threads()
        differences = largest_differences(graph, client.local_model.model, some, threads)
        return reply(broadcast, scalars={DIFFERENCE: reached(differences, client.min_count)})


def compared(client: Client, split: Split) -> Examples | None:
    """One picture of each of a client's first patients in a split, or of those it trains on.

    None where they are of too few patients for anything to be told.
    """
    splits: tuple[Split, ...] = (split, "train")
    for name in splits:
        examples = client.examples(name)
        firsts = np.sort(np.unique(examples.people, return_index=True)[1])[:PARITY_PICTURES]
        if len(firsts) >= max(client.min_count, 1):
            return examples.where(np.isin(np.arange(len(examples)), firsts))
    return None


def reached(differences: NDArray[np.float32], least: int) -> float:
    """The difference that `least` patients' pictures reach, to one digit.

    The largest of all would be what two models answer for one picture; a coordinator chooses both.
    """
    return float(f"{np.sort(differences)[-max(least, 1)]:.0e}")


def manifest(context: StageContext, name: str, graph: bytes, parity: float | None = None) -> BundleManifest:
    """The manifest of a model that is not calibrated: it promises nothing and refers everything."""
    case, subgroup = context.job.data.case, subgroup_of(context, name)
    return BundleManifest(
        case=case,
        model=context.job.name,
        file=ModelFile.of(graph),
        labels=tuple(context.labels),
        picture=context.job.picture,
        subgroup=subgroup,
        parity=parity,
        lineage=Lineage(
            job=context.digest,
            recipe=context.job.about.system if context.job.about else context.job.name,
            data={"all": context.fingerprint},
            seed=context.job.seed,
            parent=weights_digest(context.job.model),
            encoder=encoder_origin(context.job.model),
            code_version=version("dermfed"),
        ),
    )


def subgroup_of(context: StageContext, name: str) -> Subgroup:
    """Whom a model is for: everybody, or the declared skin tones of its subgroup."""
    groups = context.job.data.subgroups
    if name == GLOBAL or not isinstance(groups, ToneGroups):
        return Subgroup()
    return Subgroup.of_tones(name, groups.tones[name])
