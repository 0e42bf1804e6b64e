"""`GET /v1/models` and `GET /v1/models/{name}/card`: what is served, and what is known of it."""

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from registry.bundle.codings import codings_of
from serving.card import card, card_page
from serving.headers import POLICY, policy_for
from serving.live import LoadedRelease
from serving.running import Running, pick
from serving.schemas import Models, ServedModel, ServedVersion


class ServedModels:
    """What is served."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def routes(self) -> list[Route]:
        """Its paths."""
        return [Route("/v1/models", self.models), Route("/v1/models/{name}/card", self.card)]

    async def models(self, request: Request) -> Response:
        """All of it."""
        await self._running.authorise(request, "read")
        state = await self._running.state(request)
        alias = self._running.settings.alias
        served = [served_model(one, alias) for one in state.releases.values()]
        return JSONResponse(Models(models=served).model_dump(mode="json"))

    async def card(self, request: Request) -> Response:
        """One model's card: JSON, or a page where one is asked for."""
        await self._running.authorise(request, "read")
        served = pick(await self._running.state(request), request.path_params["name"])
        as_page = "text/html" in request.headers.get("accept", "")
        # In a thread: of a release with four versions it takes four milliseconds.
        return await anyio.to_thread.run_sync(self._card, served, as_page)

    def _card(self, served: LoadedRelease, as_page: bool) -> Response:
        shown = card(served, self._running.settings.alias)
        if as_page:
            page = card_page(shown)
            return HTMLResponse(page, headers={POLICY: policy_for(page)})
        return JSONResponse(shown.model_dump(mode="json"))


def served_model(served: LoadedRelease, alias: str) -> ServedModel:
    """A release as the list tells of it."""
    everybody = next(iter(served.versions.values()))
    return ServedModel(
        name=served.release.model,
        release=served.release.id,
        alias=alias,
        labels=[label.code for label in everybody.manifest.labels],
        codings={label.code: list(codings_of(label)) for label in everybody.manifest.labels},
        versions=[
            ServedVersion(
                version=version.number,
                subgroup=version.subgroup.name,
                scale=version.subgroup.scale,
                skin_tones=list(version.subgroup.values),
                digest=version.digest,
            )
            for version in served.release.versions
        ],
    )
