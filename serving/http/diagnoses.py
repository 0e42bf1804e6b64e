"""`POST /v1/diagnoses`: the pictures of a lesion in, a diagnosis out."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registry.bundle.cases import Kind
from serving.auth import refuse_other_sites
from serving.decoding.messages import Decode, decode_here
from serving.http.middleware import DIAGNOSES, document, request_id
from serving.http.upload import FIELD, MAX_PICTURES, Upload, check_format, read_upload
from serving.inference.predictor import (
    Decoded,
    LoadedVersion,
    Source,
    bounded_rule,
    build_diagnosis,
    decode,
    decode_frame,
)
from serving.monitoring.decision_log import PendingEntry
from serving.protocol.fhir import fhir_bundle
from serving.protocol.negotiation import FHIR, prefers_fhir
from serving.protocol.parameters import ALL_FRAMES, Parameters, read_case, read_parameters, select_subgroup
from serving.protocol.problems import InvalidParameter
from serving.protocol.schemas import Diagnosis
from serving.releases.loading import LoadedRelease
from serving.state import ServiceState, select_release, service_of

log = logging.getLogger("dermfed.serve")

Reader = Callable[[Sequence[tuple[str, str]], Mapping[str, str]], Parameters]
"""Reads the parameters of a diagnosis from the query and the form's fields."""


async def diagnose(request: Request) -> Response:
    """Answers `POST /v1/diagnoses`, with one entry in the decision log."""
    service = service_of(request)
    async with service.decision_log.entry_of(request) as entry:
        await service.authorise(request, "diagnose")
        if request.state.key is None:  # any page that is open on this machine could send pictures
            refuse_other_sites(request, service.settings.cors_origins)
        as_fhir = prefers_fhir(request.headers.getlist("accept"), request.query_params.get("_format"))
        result = await run_diagnosis(service, request, entry)
        answer: Response
        if as_fhir:
            bundle = fhir_bundle(result.diagnosis, result.loaded.manifest.labels, result.parameters)
            answer = JSONResponse(bundle, media_type=FHIR)
        else:
            answer = document(result.diagnosis)
        return await respond(service, request, entry, result, answer)


async def respond(
    service: ServiceState, request: Request, entry: PendingEntry, result: "DiagnosisResult", answer: Response
) -> Response:
    """Counts and logs a diagnosis whose answer is built, and attaches the work to do after sending it."""
    service.metrics.diagnosis(result.diagnosis, time.monotonic() - request.state.began)
    await entry.diagnosed(result.diagnosis)
    answer.background = result.after_response
    return answer


async def run_diagnosis(
    service: ServiceState, request: Request, entry: PendingEntry, read: Reader = read_parameters
) -> "DiagnosisResult":
    """Reads, decodes and diagnoses the pictures of an authorised request; `respond` counts and logs it.

    Args:
        service: its parts.
        request: the request, of which nothing has been read.
        entry: of the request, in the decision log.
        read: how its parameters are read.
    """
    async with service.admission.admit(request) as admitted:
        upload = await read_upload(request, service.settings.max_bytes)
        admitted.watch_for_disconnect()
        pictures = [picture.content for picture in upload.pictures]
        await entry.hash_pictures(pictures)
        parameters = read(request.query_params.multi_items(), upload.fields)
        asked = parameters.model or service.settings.default_model
        served = await service.served(request, asked)
        release = select_release(served, asked)
        chosen = await service.canaries.choose(served, release, pictures, parameters)
        if chosen is release:
            return await _answer(service, request, release, upload, parameters)
        try:
            result = await _answer(service, request, chosen, upload, parameters)
        except Exception as error:
            if not service.canaries.gives_way(error):
                raise
            log.warning("%s: the canary failed: %s", request_id(request), type(error).__name__)
            service.canaries.answered(served, chosen, "failed")
            return await _answer(service, request, release, upload, parameters)
        service.canaries.answered(served, chosen, "canary")
        return result


async def _answer(
    service: ServiceState, request: Request, release: LoadedRelease, upload: Upload, parameters: Parameters
) -> "DiagnosisResult":
    """The diagnosis by a release, of the version for the declared tone."""
    routed = select_subgroup(release.manifests, parameters.skin_tone, parameters.skin_tone_scale)
    loaded = release.versions[routed.subgroup]
    settings = service.settings
    decode_in = partial(
        prepare,
        loaded,
        upload,
        parameters,
        settings.max_pixels,
        explain=parameters.explain and settings.explain,
        burned_in=settings.burned_in,
    )
    decoded, outputs = await service.batcher.infer(loaded, decode_in, request.state.key)
    await service.may_leave(loaded.version)
    diagnosis = build_diagnosis(
        loaded,
        decoded,
        outputs,
        parameters,
        routed.reason,
        request_id=request_id(request),
        prevalence=release.prevalence,
    )
    after_response = service.monitoring.background_task(
        release, loaded, parameters, decoded, outputs, diagnosis, request.state.key
    )
    return DiagnosisResult(diagnosis, loaded, parameters, after_response, decoded)


def prepare(
    loaded: LoadedVersion,
    upload: Upload,
    parameters: Parameters,
    max_pixels: int,
    decode_one: Decode = decode_here,
    *,
    explain: bool = False,
    burned_in: bool = False,
) -> Decoded:
    """Decodes an upload for one version's model, after checking formats; blocks, so run it in a thread.

    Raises:
        InvalidParameter: the model does not take what was sent.
        NotAnImage, WrongMediaType, BodyTooLarge: a picture cannot be shown to a model.
    """
    for picture in upload.pictures:
        check_format(picture.content, picture.declared)
    sources, kinds = list[Source](), list[Kind | None]()
    for picture, kind in zip(upload.pictures, said_kinds(upload, parameters), strict=True):
        frames: Sequence[int | None] = [parameters.frame]
        if parameters.frame == ALL_FRAMES:
            first = decode_frame(picture.content, bounded_rule(loaded, max_pixels), 1, decode_one)
            frames = range(1, first.answer.frames + 1)
        if len(sources) + len(frames) > MAX_PICTURES:  # before any is listed: a file may claim billions
            raise InvalidParameter(
                f"the files hold more than {MAX_PICTURES} frames, and no model takes more; name one by "
                "`frame`"
            )
        sources += [(picture.content, frame) for frame in frames]
        kinds += [kind] * len(frames)
    given = read_case(loaded.manifest, [content for content, _ in sources], kinds, parameters.facts)
    return decode(loaded, sources, max_pixels, given, decode_one, explain=explain, burned_in=burned_in)


def said_kinds(upload: Upload, parameters: Parameters) -> list[Kind | None]:
    """Of what kind each picture is, as far as the sender says it.

    Raises:
        InvalidParameter: it was said of the picture `image`, and there is none.
    """
    kinds = [picture.kind for picture in upload.pictures]
    if parameters.image_kind is not None and None not in kinds:
        raise InvalidParameter(
            f"`image_kind` says of what kind the picture `{FIELD}` is, and there is none; leave it out"
        )
    return [kind or parameters.image_kind for kind in kinds]


@dataclass(frozen=True)
class DiagnosisResult:
    """A diagnosis with the version and the parameters it was made with.

    Attributes:
        diagnosis: the answer.
        loaded: the version that gave it.
        parameters: what was asked for.
        after_response: the work to be done once the answer has been sent.
        decoded: the pictures as the model saw them.
    """

    diagnosis: Diagnosis
    loaded: LoadedVersion
    parameters: Parameters
    after_response: BackgroundTask
    decoded: Decoded


ROUTES: Final = (Route(DIAGNOSES, diagnose, methods=["POST"]),)
