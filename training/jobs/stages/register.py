"""The stage `register`: the run's models become versions in the registry, and if asked a release."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from registry.bundle.folder import Bundle, bundle_digest
from training.algorithms.client import Client
from training.errors import JobError
from training.jobs.stages.base import BundleDraft, Stage, StageContext, StageResult
from training.jobs.stages.lineage import with_parents
from training.messages.message import Broadcast, Update, unknown_question


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
        raise unknown_question(broadcast)


def renamed(bundle: BundleDraft, model: str) -> BundleDraft:
    """The bundle under its name in the registry."""
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"model": model}))


def whole(bundle: BundleDraft) -> Bundle:
    """The bundle as it would be read from disk."""
    return Bundle(bundle.manifest, bundle.graph, bundle_digest(bundle.manifest))
