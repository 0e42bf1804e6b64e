"""From the bytes of one picture to a diagnosis, by one loaded version.

In three steps, each where it belongs: `decode` is work for a thread, the model's run is for
`serving.batching`, which may show it several pictures together, and `answer` is a pure function of both.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from registry.bundle.decision import decide
from registry.bundle.errors import PictureError, PictureTooLarge, UnsupportedPicture
from registry.bundle.folder import Bundle
from registry.bundle.graph import Graph, Outputs
from registry.bundle.picture import decode_opened
from registry.bundle.picture_file import open_picture
from registry.bundle.schema import BundleManifest
from registry.records import Version
from serving.parameters import Parameters
from serving.problems import BodyTooLarge, NotAnImage, Problem, WrongMediaType
from serving.quality import Judged, judge
from serving.reasons import outcome, reasons
from serving.routing import Route
from serving.schemas import AnsweringModel, Diagnosis
from serving.tone import seen_angle, tone_warnings


@dataclass(frozen=True)
class LoadedVersion:
    """A version that is ready to answer.

    Attributes:
        version: which it is.
        manifest: what `bundle.json` says.
        graph: its model, loaded; one thread a picture.
        wide: the same model for a picture that is alone, which several threads share; None where one
            thread has to do.
    """

    version: Version
    manifest: BundleManifest
    graph: Graph
    wide: Graph | None = None

    @classmethod
    def of(cls, version: Version, bundle: Bundle, lone_threads: int = 1) -> "LoadedVersion":
        """Loads the model of a bundle that was verified.

        Args:
            version: which it is.
            bundle: its bundle.
            lone_threads: threads for a picture that is alone; more than one take a second copy of the model.

        Raises:
            GraphError: the model is none that a bundle may hold.
        """
        wide = Graph(bundle.model, lone_threads) if lone_threads > 1 else None
        return cls(version, bundle.manifest, Graph(bundle.model), wide)


@dataclass(frozen=True)
class Decoded:
    """A picture as a model sees it.

    Attributes:
        pixels: `(size, size, 3)` uint8 RGB.
        quality: whether it can be judged.
        angle: of its skin, degrees; None where the version cannot tell anything by it.
    """

    pixels: NDArray[np.uint8]
    quality: Judged
    angle: float | None = None


def decode(loaded: LoadedVersion, content: bytes, max_pixels: int) -> Decoded:
    """The picture by the version's own rule, with the service's ceiling.

    Raises:
        NotAnImage, WrongMediaType, BodyTooLarge: the picture cannot be shown to a model.
    """
    rule = loaded.manifest.picture
    bounded = rule.model_copy(update={"max_pixels": min(rule.max_pixels, max_pixels)})
    try:
        image = open_picture(content)
        width, height = image.size  # before the decoder scales down
        pixels = decode_opened(image, bounded)
    except PictureError as error:
        raise picture_problem(error) from error
    quality = judge(width, height, rule, pixels)
    return Decoded(pixels, quality, seen_angle(pixels, loaded.manifest))


def answer(
    loaded: LoadedVersion,
    decoded: Decoded,
    outputs: Outputs,
    parameters: Parameters,
    route: Route,
    *,
    request_id: str,
) -> Diagnosis:
    """The diagnosis of one picture.

    Args:
        loaded: the version that was asked.
        decoded: the picture.
        outputs: what the model answered for it, as a batch of one.
        parameters: what the request declares and asks for.
        route: why this version answers.
        request_id: the diagnosis's id.

    Raises:
        GraphError: the model answered what no model may.
    """
    decided = decide(
        outputs.probabilities[0],
        loaded.manifest,
        embedding=outputs.embedding[0],
        skin_tone=parameters.skin_tone,
        skin_tone_scale=parameters.skin_tone_scale if parameters.skin_tone else None,
        top=parameters.top,
    )
    version = loaded.version
    return Diagnosis.model_validate(
        {
            "id": request_id,
            "created": datetime.now(UTC),
            "model": AnsweringModel(
                name=version.model,
                version=version.number,
                subgroup=version.subgroup.name,
                digest=version.digest,
                route=route,
            ),
            "quality": decoded.quality.shown,
            **decided.to_json(),
            "decision": outcome(decided, decoded.quality),
            "reasons": reasons(decided, decoded.quality, loaded.manifest, version, route, parameters),
            "warnings": [
                *decided.warnings,
                *tone_warnings(decoded.angle, parameters, loaded.manifest, decided.unfamiliar),
            ],
        }
    )


def picture_problem(error: PictureError) -> Problem:
    """The problem that an unusable picture is answered with."""
    if isinstance(error, PictureTooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, UnsupportedPicture):
        return WrongMediaType(str(error))
    return NotAnImage(str(error))
