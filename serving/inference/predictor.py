"""The predictor: from the bytes of the pictures of one lesion to a diagnosis, by one loaded version.

In three steps: `decode` blocks, in a thread, while a process of its own decodes; the model's run is up to
`serving.inference.batcher`, which may batch several lesions; and `build_diagnosis` is a pure function of
both.

Where the model looked: the map of the most probable class, or why there is none.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases import GivenCase
from registry.bundle.decision import Decision, decide, would_help
from registry.bundle.diagnose import Question
from registry.bundle.errors import PictureError, PictureTooLarge, UnsupportedPicture
from registry.bundle.folder import Bundle
from registry.bundle.manifest import BundleManifest
from registry.bundle.model import Graph, Outputs
from registry.bundle.pictures.rule import PictureRule, Placement, overlay_png, placement, relevance
from registry.records import Version
from serving.decoding.messages import Decode, DecodedPicture, decode_here
from serving.inference.device import Device
from serving.inference.quality import QualityAssessment, assess_quality, of_all
from serving.inference.reasons import outcome, reasons, route_warnings, skin_angle, tone_warnings
from serving.protocol.parameters import Parameters, RouteReason, route_of
from serving.protocol.problems import (
    BodyTooLarge,
    BurnedIn,
    InvalidParameter,
    NotAnImage,
    ProblemResponse,
    WrongMediaType,
)
from serving.protocol.schemas import AnsweringModel, Diagnosis, Explanation, PictureMap

_SWITCHED_OFF: Final = (
    "Maps are switched off in this service; its operator can set DERMFED_SERVE_EXPLAIN=true."
)
_NO_MAP: Final = "The model of this version cannot tell where it looked."


def explanation(
    outputs: Outputs, where: Sequence[Placement], manifest: BundleManifest, *, has_map: bool
) -> Explanation:
    """The maps of the most probable class, or why there are none.

    Args:
        outputs: the model's, as a batch of one.
        where: what the model saw of each picture.
        manifest: of the version that answers.
        has_map: whether its model has one, which it was asked for where the operator has switched maps on.
    """
    if outputs.map is None:
        return Explanation(code=None, maps=[], limits=[], why_not=_SWITCHED_OFF if has_map else _NO_MAP)
    chosen = int(outputs.probabilities[0].argmax())
    of_pictures = outputs.map if manifest.case is None else outputs.map[0]
    shares = relevance(of_pictures[:, chosen])
    return Explanation(
        code=manifest.labels[chosen].code,
        maps=[_of_picture(grid, one) for grid, one in zip(shares, where, strict=True)],
        limits=_limits(shares),
    )


def _of_picture(grid: NDArray[np.float64], where: Placement) -> PictureMap:
    return PictureMap(
        box=[round(edge, 6) for edge in where.box],
        grid=[[round(float(cell), 3) for cell in row] for row in grid],
        png=base64.b64encode(overlay_png(grid, where)).decode(),
    )


def _limits(shares: NDArray[np.float64]) -> list[str]:
    """What the maps do not say."""
    said = [
        "Not validated: it is not shown that this model's answers depend on where its maps point.",
        "The map shows where in the picture the answer comes from, not why. It does not say whether the "
        "answer is right.",
        f"It is coarse: {shares.shape[1]} x {shares.shape[2]} cells, and what lies between their middles is "
        "drawn smooth.",
    ]
    if not shares.any():
        said.append("Nothing in what was sent speaks for this answer more than for others.")
    return said


SAME_FILE: Final = (
    "Two of the pictures are one and the same file. Check whether each is of the kind that was said."
)


BURNED_IN: Final = (
    "The DICOM file says that texts are burned into the picture: they may name the patient, and the model "
    "may have looked at them."
)


@dataclass(frozen=True)
class LoadedVersion:
    """A version whose model is loaded.

    Attributes:
        version: which it is.
        manifest: what `bundle.json` says.
        graph: its model, on one thread of the processor or on a GPU.
        lone_graph: the same model on several threads, for a picture that is alone; None where one thread has
            to do.
    """

    version: Version
    manifest: BundleManifest
    graph: Graph
    lone_graph: Graph | None = None

    @property
    def has_map(self) -> bool:
        """Whether its model can tell where it looked."""
        return self.graph.map_shape is not None

    @classmethod
    def of(cls, version: Version, bundle: Bundle, device: Device | None = None) -> "LoadedVersion":
        """Loads the model of a bundle that was verified.

        Args:
            version: which it is.
            bundle: its bundle.
            device: loads it; by default one thread of the processor.

        Raises:
            GraphError: the model is none that a bundle may hold, or does not run on the device.
        """
        graph, lone_graph = (device or Device()).load(bundle.model)
        return cls(version, bundle.manifest, graph, lone_graph)


Source = tuple[bytes, int | None]
"""The bytes of a file, and which of several frames in it is meant."""


@dataclass(frozen=True)
class Decoded:
    """The pictures of a lesion decoded for a model, and what was measured of them.

    Attributes:
        question: what the model is shown.
        quality: whether they can be judged.
        skin_angle: the typology angle of the skin, degrees; None where the version does not use it.
        same_file: whether two of the pictures are one file.
        where: what the model saw of each picture.
        sources: of each picture the bytes of its file, and which frame of it is meant.
        burned_in: whether a file says that texts are in its pixels.
    """

    question: Question
    quality: QualityAssessment
    skin_angle: float | None = None
    same_file: bool = False
    where: tuple[Placement, ...] = ()
    sources: tuple[Source, ...] = field(default=(), repr=False)
    burned_in: bool = False


def decode(
    loaded: LoadedVersion,
    pictures: Sequence[Source],
    max_pixels: int,
    given: GivenCase | None = None,
    decode_one: Decode = decode_here,
    *,
    explain: bool = False,
    burned_in: bool = False,
) -> Decoded:
    """Decodes pictures by the version's picture rule, within the service's limit of pixels.

    Args:
        loaded: the version that they are for.
        pictures: the bytes of each, and which frame is meant.
        max_pixels: the limit, for each.
        given: the case's other inputs; None for a model of single pictures.
        decode_one: decodes each; by default in this process.
        explain: whether a map of where the model looked is requested; ignored where the model has none.
        burned_in: whether texts may be in the pixels.

    Raises:
        NotAnImage, WrongMediaType, BodyTooLarge, BurnedIn: a picture cannot be shown to a model.
        InvalidParameter: a frame is named, and no file holds several.
    """
    rule = bounded_rule(loaded, max_pixels)
    decoded, qualities, where, several, texts = [], [], [], False, False
    for content, frame in pictures:
        picture = decode_frame(content, rule, frame, decode_one)
        several |= picture.answer.frames > 1
        texts |= picture.answer.burned_in
        if texts and not burned_in:
            raise BurnedIn(
                "the DICOM file says that texts are burned into its pixels, which may name the patient and "
                "mislead the model; send a copy without them"
            )
        decoded.append(picture.pixels)
        where.append(placement(*picture.looked_at, rule))
        qualities.append(
            assess_quality(
                picture.answer.width,
                picture.answer.height,
                rule,
                picture.pixels,
                picture.answer.unused_profile,
                picture.answer.transparent,
            )
        )
    if not several and any(frame not in (None, 1) for _, frame in pictures):
        raise InvalidParameter(
            "`frame` names a frame, and no picture that was sent holds several; leave it out"
        )
    shown = _skin_shown(decoded, given)
    return Decoded(
        Question(np.stack(decoded), given, with_map=explain and loaded.has_map),
        of_all(qualities, given.pictures) if given and len(qualities) > 1 else qualities[0],
        None if shown is None else skin_angle(shown, loaded.manifest),
        same_file=len(pictures) > 1 and len(set(pictures)) < len(pictures),
        where=tuple(where),
        sources=tuple(pictures),
        burned_in=texts,
    )


def bounded_rule(loaded: LoadedVersion, max_pixels: int) -> PictureRule:
    """The version's picture rule, within the service's limit of pixels."""
    rule = loaded.manifest.picture
    return rule.model_copy(update={"max_pixels": min(rule.max_pixels, max_pixels)})


def decode_frame(content: bytes, rule: PictureRule, frame: int | None, decode_one: Decode) -> DecodedPicture:
    """Decodes one picture.

    Raises:
        NotAnImage, WrongMediaType, BodyTooLarge: it cannot be.
    """
    try:
        return decode_one(content, rule, frame)
    except PictureError as error:
        raise picture_problem(error) from error


def _skin_shown(pictures: Sequence[NDArray[np.uint8]], given: GivenCase | None) -> NDArray[np.uint8] | None:
    """The picture whose skin is compared with a declared tone: of a case the first close-up, if it has one.

    The colours of dermoscopic pictures tell nothing of the tone.
    """
    if given is None:
        return pictures[0]
    kinds = zip(pictures, given.pictures, strict=True)
    return next((pixels for pixels, kind in kinds if kind == "close-up"), None)


def build_diagnosis(
    loaded: LoadedVersion,
    decoded: Decoded,
    outputs: Outputs,
    parameters: Parameters,
    route: RouteReason,
    *,
    request_id: str,
    prevalence: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Builds the diagnosis of one lesion from the model's outputs.

    Args:
        loaded: the version that was asked.
        decoded: its pictures.
        outputs: the model's outputs for it, as a batch of one.
        parameters: what the request declares and asks for.
        route: why this version answers.
        request_id: the id of the request, which is the diagnosis's.
        prevalence: as `decide` takes it.

    Raises:
        GraphError: the model answered what no model may.
    """
    given = decoded.question.given
    decided = decide(
        outputs.probabilities[0],
        loaded.manifest,
        pattern=given.pattern if given else None,
        embedding=outputs.embedding[0],
        skin_tone=parameters.skin_tone,
        skin_tone_scale=parameters.skin_tone_scale if parameters.skin_tone else None,
        top=parameters.top,
        prevalence=prevalence,
    )
    version = loaded.version
    decision = outcome(decided, decoded.quality)
    return Diagnosis.model_validate(
        {
            "id": request_id,
            "created": datetime.now(UTC),
            "model": AnsweringModel(
                name=version.model,
                version=version.number,
                subgroup=version.subgroup.name,
                digest=version.digest,
                route=route_of(route),
            ),
            "quality": decoded.quality.shown,
            **decided.to_json(),
            **(dict.fromkeys(("triage", "triage_evidence", "conclusion")) if decision == "retake" else {}),
            "decision": decision,
            "reasons": reasons(
                decided,
                decoded.quality,
                loaded.manifest.under(given.pattern) if given else loaded.manifest,
                version,
                route,
                parameters,
            ),
            "warnings": [
                *decided.warnings,
                *route_warnings(route, parameters),
                *([SAME_FILE] if decoded.same_file else []),
                *([BURNED_IN] if decoded.burned_in else []),
                *tone_warnings(decoded.skin_angle, parameters, loaded.manifest, decided.unfamiliar),
            ],
            **(_of_case(given, decided, loaded.manifest) if given else {}),
            "explanation": explanation(outputs, decoded.where, loaded.manifest, has_map=loaded.has_map)
            if parameters.explain
            else None,
        }
    )


def _of_case(given: GivenCase, decided: Decision, manifest: BundleManifest) -> dict[str, Any]:
    """What a diagnosis says of a case: what was used of it, and what would help."""
    return {
        "inputs": given.to_json(promised=decided.guarantee != "none"),
        "would_help": [one.to_json() for one in would_help(given, manifest)],
    }


def picture_problem(error: PictureError) -> ProblemResponse:
    """The problem response for a picture that cannot be used."""
    if isinstance(error, PictureTooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, UnsupportedPicture):
        return WrongMediaType(str(error))
    return NotAnImage(str(error))
