"""`POST /v1/diagnoses`: a picture in, a diagnosis out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from serving.auth import refuse_other_sites
from serving.exchange import request_id
from serving.fhir.bundle import fhir_bundle
from serving.fhir.negotiation import FHIR, prefers_fhir
from serving.parameters import Parameters, read_parameters
from serving.predictor import Decoded, LoadedVersion, answer, decode
from serving.records.keeping import Record
from serving.routing import choose
from serving.running import Running, pick
from serving.schemas import Diagnosis
from serving.upload import Upload, check_format, read_upload

Reader = Callable[[Sequence[tuple[str, str]], Mapping[str, str]], Parameters]
"""Reads parameters from the query and the form."""


class Diagnoses:
    """The endpoint that everything else is about."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def routes(self) -> list[Route]:
        """Its path."""
        return [Route("/v1/diagnoses", self.diagnose, methods=["POST"])]

    async def diagnose(self, request: Request) -> Response:
        """The diagnosis of the picture in the request."""
        with self._running.records.of(request) as record:
            return await self._diagnose(request, record)

    async def _diagnose(self, request: Request, record: Record) -> Response:
        await self._running.authorise(request, "diagnose")
        if request.state.key is None:  # any page that is open on this machine could send pictures
            refuse_other_sites(request)
        made = await self.make(request, record)
        answer: Response
        if prefers_fhir(request.headers.getlist("accept")):
            bundle = fhir_bundle(made.diagnosis, made.loaded.manifest.labels, made.parameters)
            answer = JSONResponse(bundle, media_type=FHIR)
        else:
            answer = Response(made.diagnosis.model_dump_json(), media_type="application/json")
        return self.ready(request, record, made, answer)

    def ready(self, request: Request, record: Record, made: "Made", answer: Response) -> Response:
        """The answer that tells of a diagnosis, counted and recorded now that nothing of it can fail."""
        self._running.metrics.diagnosis(made.diagnosis, time.monotonic() - request.state.began)
        record.diagnosed(made.diagnosis)
        answer.background = made.afterwards
        return answer

    async def make(self, request: Request, record: Record, read: Reader = read_parameters) -> "Made":
        """The diagnosis that an authorised request asks for; `ready` counts and records it.

        Args:
            request: the request, of which nothing has been read.
            record: of the request.
            read: how its parameters are read.
        """
        running = self._running
        async with running.admission.place(request) as place:
            upload = await read_upload(request, running.settings.max_bytes)
            place.watch()
            await record.picture(upload.content)
            parameters = read(request.query_params.multi_items(), upload.fields)
            asked = parameters.model or running.settings.default_model
            served = pick(await running.state(request, asked), asked)
            routed = choose(served.subgroups, parameters.skin_tone, parameters.skin_tone_scale)
            loaded = served.versions[routed.subgroup]
            decoded, outputs = await running.batching.diagnose(
                loaded, partial(prepare, loaded, upload, running.settings.max_pixels)
            )
            diagnosis = answer(
                loaded, decoded, outputs, parameters, routed.route, request_id=request_id(request)
            )
        afterwards = running.monitoring.afterwards(
            served, loaded, parameters, upload.content, decoded, outputs, diagnosis
        )
        return Made(diagnosis, loaded, parameters, afterwards)


def prepare(loaded: LoadedVersion, upload: Upload, max_pixels: int) -> Decoded:
    """The picture as the version's model sees it, if it is nothing but a picture; work for a thread.

    Raises:
        NotAnImage, WrongMediaType, BodyTooLarge: it cannot be shown to a model.
    """
    check_format(upload.content, upload.declared)
    return decode(loaded, upload.content, max_pixels)


@dataclass(frozen=True)
class Made:
    """A diagnosis, and what goes with it.

    Attributes:
        diagnosis: the answer.
        loaded: the version that gave it.
        parameters: what was asked for.
        afterwards: what is to be done once the answer has been sent.
    """

    diagnosis: Diagnosis
    loaded: LoadedVersion
    parameters: Parameters
    afterwards: BackgroundTask
