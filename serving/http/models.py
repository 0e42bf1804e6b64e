"""What is served, and whether it is well: `/v1/models`, their cards, `/livez`, `/readyz` and `/metrics`."""

from typing import Final, Literal

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from registry.bundle.manifest import BundleManifest
from registry.records import Canary, Version
from serving.http.middleware import POLICY, document, policy_for
from serving.metrics import MEDIA_TYPE
from serving.protocol.documents import (
    Models,
    Readiness,
    ServedCanary,
    ServedModel,
    ServedPattern,
    ServedVersion,
)
from serving.protocol.problems import NothingServed
from serving.releases.loading import LoadedRelease, card, card_page
from serving.state import NOT_TOLD, nothing_served, select_release, service_of


async def models(request: Request) -> Response:
    """Every model with its release and the versions in it."""
    service = service_of(request)
    await service.authorise(request, "read")
    served = await service.served(request)
    alias = service.settings.alias
    canaries = service.canaries.answering()
    models = [served_model(one, alias, canaries.get(name)) for name, one in served.releases.items()]
    return document(Models(models=models))


async def model_card(request: Request) -> Response:
    """One model's card: JSON, or a page where one is asked for."""
    service = service_of(request)
    await service.authorise(request, "read")
    release = select_release(await service.served(request), request.path_params["name"])
    as_page = "text/html" in request.headers.get("accept", "")
    # In a thread: of a release with four versions it takes four milliseconds.
    return await anyio.to_thread.run_sync(_card, release, service.settings.alias, as_page)


def _card(release: LoadedRelease, alias: str, as_page: bool) -> Response:
    shown = card(release, alias)
    if as_page:
        page = card_page(shown)
        return HTMLResponse(page, headers={POLICY: policy_for(page)})
    return document(shown)


def served_model(
    loaded: LoadedRelease, alias: str, canary: tuple[Canary, LoadedRelease] | None = None
) -> ServedModel:
    """A loaded release as `GET /v1/models` lists it, with its active canary."""
    everybody = next(iter(loaded.versions.values()))
    return ServedModel(
        name=loaded.release.model,
        release=loaded.release.id,
        alias=alias,
        labels=[label.code for label in everybody.manifest.labels],
        codings={label.code: list(label.codings) for label in everybody.manifest.labels},
        versions=_served_versions(loaded),
        canary=None if canary is None else _served_canary(*canary),
    )


def _served_canary(canary: Canary, loaded: LoadedRelease) -> ServedCanary:
    versions = _served_versions(loaded)
    return ServedCanary(
        release=canary.release.id, share=canary.share, subgroup=canary.subgroup, versions=versions
    )


def _served_versions(loaded: LoadedRelease) -> list[ServedVersion]:
    return [
        _served_version(version, loaded.versions[version.subgroup.name].manifest)
        for version in loaded.release.versions
    ]


def _served_version(version: Version, manifest: BundleManifest) -> ServedVersion:
    subgroup = version.subgroup
    tones = {
        scale: [tone for tone in values if manifest.represents(subgroup, tone, scale)]
        for scale, values in subgroup.by_scale.items()
    }
    return ServedVersion(
        version=version.number,
        subgroup=version.subgroup.name,
        scale=version.subgroup.scale,
        skin_tones=tones[subgroup.scale] if subgroup.scale else [],
        digest=version.digest,
        tones=tones,
        case=manifest.case,
        patterns=[
            ServedPattern(
                pattern=rules.pattern.name,
                promised=rules.conformal.guarantee != "none",
                set_size=rules.set_size,
                reported=rules.reported,
            )
            for rules in manifest.patterns
        ],
    )


async def live(request: Request) -> Response:
    """Liveness: the process answers."""
    return PlainTextResponse("alive\n")


async def ready(request: Request) -> Response:
    """Readiness: whether a model can answer, with the health issues that degrade the service."""
    service = service_of(request)
    service.admission.check_open()
    served = service.current_release.served
    if not served.releases:
        may = service.may(request, "operate")
        alias = service.settings.alias
        raise NothingServed(nothing_served(served, alias, in_full=True) if may else NOT_TOLD)
    issues = service.health_issues
    if issues and not service.may(request, "operate"):
        issues = [f"{len(issues)} troubles; the log names them, and a key with the scope operate is told"]
    status: Literal["ready", "degraded"] = "degraded" if issues else "ready"
    return document(Readiness(status=status, models=sorted(served.releases), troubles=issues))


async def prometheus(request: Request) -> Response:
    """All metrics in Prometheus' text format."""
    service = service_of(request)
    await service.authorise(request, "operate")
    text = await anyio.to_thread.run_sync(service.metrics.render)
    return Response(text, media_type=MEDIA_TYPE)


ROUTES: Final = (
    Route("/v1/models", models),
    Route("/v1/models/{name}/card", model_card),
    Route("/livez", live),
    Route("/readyz", ready),
    Route("/metrics", prometheus),
)
