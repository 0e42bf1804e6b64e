"""The predictor: from the bytes of one picture to a diagnosis, by one loaded version.

In three steps: `decode` blocks and runs in a thread, the model's run is up to `serving.inference.scheduler`,
which may batch several pictures, and `build_diagnosis` is a pure function of both.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from registry.bundle.decision import decide
from registry.bundle.errors import PictureError, PictureTooLarge, UnsupportedPicture
from registry.bundle.folder import Bundle
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.model_file.graph import Graph, Outputs
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import decode_opened
from registry.records import Version
from serving.inference.quality import QualityAssessment, assess_quality
from serving.inference.reasons import outcome, reasons
from serving.inference.tone import skin_angle, tone_warnings
from serving.protocol.parameters import Parameters
from serving.protocol.problems import BodyTooLarge, NotAnImage, ProblemResponse, WrongMediaType
from serving.protocol.routing import Route
from serving.protocol.schemas import AnsweringModel, Diagnosis


@dataclass(frozen=True)
class LoadedVersion:
    """A version whose model is loaded.

    Attributes:
        version: which it is.
        manifest: what `bundle.json` says.
        graph: its model, which runs on one thread.
        lone_graph: the same model on several threads, for a picture that is alone; None where one thread has
            to do.
    """

    version: Version
    manifest: BundleManifest
    graph: Graph
    lone_graph: Graph | None = None

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
        lone_graph = Graph(bundle.model, lone_threads) if lone_threads > 1 else None
        return cls(version, bundle.manifest, Graph(bundle.model), lone_graph)


@dataclass(frozen=True)
class Decoded:
    """A picture decoded for a model, and what was measured of it.

    Attributes:
        pixels: `(size, size, 3)` uint8 RGB.
        quality: whether it can be judged.
        skin_angle: the typology angle of its skin, degrees; None where the version does not use it.
    """

    pixels: NDArray[np.uint8]
    quality: QualityAssessment
    skin_angle: float | None = None


def decode(loaded: LoadedVersion, content: bytes, max_pixels: int) -> Decoded:
    """Decodes a picture by the version's picture rule, within the service's limit of pixels.

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
    quality = assess_quality(width, height, rule, pixels)
    return Decoded(pixels, quality, skin_angle(pixels, loaded.manifest))


def build_diagnosis(
    loaded: LoadedVersion,
    decoded: Decoded,
    outputs: Outputs,
    parameters: Parameters,
    route: Route,
    *,
    request_id: str,
) -> Diagnosis:
    """Builds the diagnosis of one picture from the model's outputs.

    Args:
        loaded: the version that was asked.
        decoded: the picture.
        outputs: the model's outputs for it, as a batch of one.
        parameters: what the request declares and asks for.
        route: why this version answers.
        request_id: the id of the request, which is the diagnosis's.

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
                *tone_warnings(decoded.skin_angle, parameters, loaded.manifest, decided.unfamiliar),
            ],
        }
    )


def picture_problem(error: PictureError) -> ProblemResponse:
    """The problem response for a picture that cannot be used."""
    if isinstance(error, PictureTooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, UnsupportedPicture):
        return WrongMediaType(str(error))
    return NotAnImage(str(error))
