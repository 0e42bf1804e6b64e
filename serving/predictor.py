"""From the bytes of one picture to a diagnosis, by one loaded version."""

from dataclasses import dataclass
from datetime import UTC, datetime

from registry.bundle.decision import decide
from registry.bundle.errors import PictureError, PictureTooLarge, UnsupportedPicture
from registry.bundle.folder import Bundle
from registry.bundle.graph import Graph
from registry.bundle.picture import decode_picture
from registry.bundle.picture_file import open_picture
from registry.bundle.schema import BundleManifest
from registry.records import Version
from serving.parameters import Parameters
from serving.problems import BodyTooLarge, NotAnImage, Problem, WrongMediaType
from serving.quality import judge
from serving.routing import Route
from serving.schemas import AnsweringModel, Diagnosis


@dataclass(frozen=True)
class LoadedVersion:
    """A version that is ready to answer.

    Attributes:
        version: which it is.
        manifest: what `bundle.json` says.
        graph: its model, loaded.
    """

    version: Version
    manifest: BundleManifest
    graph: Graph

    @classmethod
    def of(cls, version: Version, bundle: Bundle) -> "LoadedVersion":
        """Loads the model of a bundle that was verified.

        Raises:
            GraphError: the model is none that a bundle may hold.
        """
        return cls(version, bundle.manifest, Graph(bundle.model))


def diagnose(
    loaded: LoadedVersion,
    content: bytes,
    parameters: Parameters,
    route: Route,
    *,
    request_id: str,
    max_pixels: int,
) -> Diagnosis:
    """The diagnosis of one picture.

    Raises:
        NotAnImage, WrongMediaType, BodyTooLarge: the picture cannot be shown to a model.
        GraphError: the model answered what no model may.
    """
    rule = loaded.manifest.picture
    bounded = rule.model_copy(update={"max_pixels": min(rule.max_pixels, max_pixels)})
    try:
        header = open_picture(content)
        pixels = decode_picture(content, bounded)
    except PictureError as error:
        raise picture_problem(error) from error
    quality = judge(header.width, header.height, rule)
    outputs = loaded.graph.run(pixels[None])
    decision = decide(
        outputs.probabilities[0],
        loaded.manifest,
        embedding=outputs.embedding[0],
        skin_tone=parameters.skin_tone,
        skin_tone_scale=parameters.skin_tone_scale if parameters.skin_tone else None,
        top=parameters.top,
    ).to_json()
    if not quality.acceptable:
        decision["decision"] = "retake"
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
            "quality": quality,
            **decision,
        }
    )


def picture_problem(error: PictureError) -> Problem:
    """The problem that an unusable picture is answered with."""
    if isinstance(error, PictureTooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, UnsupportedPicture):
        return WrongMediaType(str(error))
    return NotAnImage(str(error))
