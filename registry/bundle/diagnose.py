"""One picture through one bundle, without a service: `python -m registry.bundle.diagnose BUNDLE PICTURE`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from registry.bundle.decision import Decision, decide
from registry.bundle.errors import BundleError, FolderError
from registry.bundle.folder import Bundle, read_bundle
from registry.bundle.model_file.graph import Graph
from registry.bundle.pictures.rule import decode_picture


def diagnose(
    bundle: Bundle, content: bytes, *, skin_tone: str | None = None, skin_tone_scale: str | None = None
) -> Decision:
    """Decides on the bytes of one picture with a bundle.

    Raises:
        BundleError: the picture cannot be used, or the bundle's graph cannot run.
    """
    image = decode_picture(content, bundle.manifest.picture)
    outputs = Graph(bundle.model).run(image[None])
    return decide(
        outputs.probabilities[0],
        bundle.manifest,
        embedding=outputs.embedding[0],
        skin_tone=skin_tone,
        skin_tone_scale=skin_tone_scale,
    )


def main(
    bundle: Annotated[Path, typer.Argument(help="A bundle's folder, e.g. runs/first/bundles/global.")],
    picture: Annotated[Path, typer.Argument(help="A JPEG, PNG, WebP or DICOM file.")],
    skin_tone: Annotated[str | None, typer.Option(help="The declared skin tone, e.g. 5.")] = None,
    skin_tone_scale: Annotated[str, typer.Option(help="The scale it is declared on.")] = "fitzpatrick",
) -> None:
    """Print a bundle's answer for one picture as JSON. Exit code 2 when it cannot be given."""
    try:
        decision = diagnose(
            read_bundle(bundle),
            read_picture(picture),
            skin_tone=skin_tone,
            skin_tone_scale=skin_tone_scale if skin_tone else None,
        )
    except BundleError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(json.dumps(decision.to_json(), indent=2))


def read_picture(path: Path) -> bytes:
    """The bytes of a picture file.

    Raises:
        FolderError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FolderError(f"{path} cannot be read ({error.strerror}); name a picture file") from error


if __name__ == "__main__":
    typer.run(main)
