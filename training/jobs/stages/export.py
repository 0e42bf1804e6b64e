"""The stages `export` and `register`: models become ONNX graphs, checked against torch, and versions."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from importlib.metadata import version
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.labels import Subgroup
from registry.bundle.manifest import BundleManifest, EncoderOrigin, Lineage, ModelFile, sha256
from training.algorithms.client import Client
from training.algorithms.client import weights_digest as tensors_digest
from training.data.dataset import Examples, Split
from training.data.subgroups import ToneGroups
from training.errors import ExportError, JobError
from training.jobs.stages.base import Attest, BundleDraft, Stage, StageContext, StageResult, unsigned
from training.jobs.stages.final_test import answer_test, figures_on_test
from training.messages import GLOBAL, Broadcast, Tensors, Update, named, prefixed, reply, unknown_request
from training.models import ModelConfig
from training.models.encoder_sources import find_weights
from training.models.export import GRAPH, as_bytes, as_tensor, export_graph, largest_differences, split_graph
from training.rounds.requests import TEST
from training.rounds.server.ask import Traffic, ask_all


def weights_digest(model: ModelConfig) -> str | None:
    """The digest of the file of weights that a job begins with; None for weights drawn from its seed.

    Of several encoders it is that of their digests, a line each.

    Raises:
        JobError: a file is gone.
    """
    digests = [origin.sha256 for origin in encoder_origins(model)]
    if len(model.begins_with) == 1 or not digests:
        return digests[0] if digests else None
    return sha256("\n".join(digests).encode())


def encoder_origins(model: ModelConfig) -> tuple[EncoderOrigin, ...]:
    """What is written of a job's encoders; nothing of one with weights drawn from its seed.

    Raises:
        JobError: a file is gone.
    """
    found = []
    for name, weights in model.begins_with:
        source = find_weights(weights, name)
        if source is None:
            continue
        # Where a file lies is nobody else's business.
        said = source.path.name if source.weights == str(source.path) else source.weights
        try:
            digest = source.sha256
        except OSError as error:
            raise JobError(
                f"model.weights: {weights} cannot be read any more ({error.strerror}); put it back, so "
                "that the bundles can say what the model began from"
            ) from error
        found.append(EncoderOrigin(name=name, source=said, sha256=digest, licence=source.licence))
    return tuple(found)


def encoder_origin(model: ModelConfig) -> EncoderOrigin | tuple[EncoderOrigin, ...] | None:
    """As a lineage has it: one, several in their order, or None for weights drawn from the seed."""
    found = encoder_origins(model)
    return found if len(model.begins_with) > 1 else next(iter(found), None)


def with_parents(bundles: Mapping[str, BundleDraft], attest: Attest = unsigned) -> dict[str, BundleDraft]:
    """The bundles, each subgroup's with the digest of the global one as its parent, and signed.

    That digest covers the calibrated graph and the thresholds, so it is set once nothing in the global bundle
    changes any more; a stage that changes bundles sets it again.

    Args:
        bundles: by name.
        attest: signs a manifest's figures; the global one is signed first, since its digest covers that.
    """
    everybody = _attested(bundles[GLOBAL], attest) if GLOBAL in bundles else None
    parent = None if everybody is None else bundle_digest(everybody.manifest)
    return {
        name: everybody
        if everybody is not None and name == GLOBAL
        else _attested(_with_parent(bundle, parent), attest)
        for name, bundle in bundles.items()
    }


def _with_parent(bundle: BundleDraft, parent: str | None) -> BundleDraft:
    if parent is None:
        return bundle
    lineage = bundle.manifest.lineage.model_copy(update={"parent": parent})
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"lineage": lineage}))


def _attested(bundle: BundleDraft, attest: Attest) -> BundleDraft:
    return replace(bundle, manifest=attest(bundle.manifest))


PARITY = "parity"
WEIGHTS = "weights/"
PARITY_PICTURES = 64
TOLERANCE = 1e-4  # the largest difference in any probability between ONNX Runtime and torch
DIFFERENCE = "difference"


class Export(Stage):
    """ONNX graphs of all models."""

    stage: Literal["export"] = "export"
    passes_figures_on: ClassVar[bool] = True
    summed: ClassVar[frozenset[str]] = frozenset({TEST})
    quorate: ClassVar[frozenset[str]] = frozenset({TEST, PARITY})

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
            "tolerance": TOLERANCE,
        }
        test = figures_on_test(context, before.models, traffic) if before.tests_local_models else before.test
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
        if worst > TOLERANCE:
            raise ExportError(
                f"the exported model {name} differs from torch by {worst:.2g} in a probability at {client}; "
                f"allowed is {TOLERANCE:g}. The model uses an operation that ONNX "
                "computes otherwise: choose another model.name"
            )
        return worst

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """The difference between the graph and torch on this client's pictures, or figures of the model."""
        if broadcast.ask == TEST:
            return answer_test(broadcast, client)
        if broadcast.ask != PARITY:
            raise unknown_request(broadcast)
        client.local_model.load(named(broadcast.tensors, WEIGHTS))
        some = compared(client, "train" if broadcast.options.get("split") == "train" else "validation")
        if some is None:
            return reply(broadcast)
        graph, threads = as_bytes(broadcast.tensors), torch.get_num_threads()
        differences = largest_differences(graph, client.local_model.model, some, threads)
        return reply(broadcast, scalars={DIFFERENCE: reached(differences, client.min_count)})


def compared(client: Client, split: Split) -> Examples | None:
    """One picture of each of a client's first patients in a split, or of those it trains on.

    None where they are of too few patients for anything to be reported.
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
    """Whom a model is for: all patients, or those with the declared skin tones of its subgroup."""
    groups = context.job.data.subgroups
    if name == GLOBAL or not isinstance(groups, ToneGroups):
        return Subgroup()
    return Subgroup.of_tones(name, groups.tones[name])


class Register(Stage):
    """Registration of every bundle of the run; no client is asked anything.

    Running it again, or resuming a run in it, registers nothing twice: a bundle that is there keeps its
    version. If a gate refuses the promotion, the versions stay, the run ends with its report, and the
    command exits with 1.

    Attributes:
        model: the model's name in the registry; by default the job's.
        promote_to: the alias that shall point to the release of these versions; none by default.
        reason: what history says about the promotion; by default the job's name and digest.
    """

    stage: Literal["register"] = "register"
    passes_figures_on: ClassVar[bool] = True
    model: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    promote_to: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    reason: str | None = None

    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """Register what the stages before have made.

        Raises:
            JobError: there is nothing to register.
        """
        if not before.bundles:
            raise JobError("there is nothing to register: put the stage export before register")
        model = self.model or context.job.name
        named = {name: renamed(bundle, model) for name, bundle in before.bundles.items()}
        bundles = with_parents(named, context.attest)
        reason = self.reason or f"job {context.job.name}, {context.digest}"
        registered = context.registrar(
            [whole(bundle) for bundle in bundles.values()], self.promote_to, reason
        )
        versions = [
            {"model": model, "subgroup": name, "version": number}
            for name, number in zip(bundles, registered.numbers, strict=True)
        ]
        listed = ", ".join(f"{row['subgroup']} {row['version']}" for row in versions)
        context.metrics_log.log(f"{context.key}: {model}, versions {listed}")
        promoted = self.promote_to if registered.refused is None else None
        facts: dict[str, Any] = {
            "by_subgroup": before.facts.get("by_subgroup", {}),
            "versions": versions,
            "promoted_to": promoted,
            "refused": registered.refused,
        }
        return StageResult(before.models, bundles, test=before.test, facts=facts)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """No client is asked anything."""
        raise unknown_request(broadcast)


def renamed(bundle: BundleDraft, model: str) -> BundleDraft:
    """The bundle under its name in the registry."""
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"model": model}))


def whole(bundle: BundleDraft) -> Bundle:
    """The bundle as it would be read from disk."""
    return Bundle(bundle.manifest, bundle.graph, bundle_digest(bundle.manifest))
