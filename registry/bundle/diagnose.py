"""One lesion through one bundle, without a service: `python -m registry.bundle.diagnose BUNDLE PICTURE`.

A model that takes cases may be given more: pictures of a kind (`--close-up`, `--dermoscopic`, `--overview`)
and facts (`--fact age=70`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from registry.bundle.cases.given import GivenCase, read_given
from registry.bundle.cases.kinds import Kind
from registry.bundle.decision import Decision, decide
from registry.bundle.errors import BundleError, FolderError, NotTakenError
from registry.bundle.folder import Bundle, read_bundle
from registry.bundle.model_file.graph import Graph
from registry.bundle.pictures.rule import decode_picture
from registry.bundle.question import Question, ask, kinds_of
from registry.bundle.would_help import Help, would_help

Picture = tuple[bytes, Kind | None]
"""The bytes of a picture, and of what kind it is."""


@dataclass(frozen=True)
class CaseDecision:
    """The decision on one lesion, with what it was made from.

    Attributes:
        decision: report or refer, with the evidence for it.
        given: what was given of a case; None for a model of single pictures.
        would_help: what is missing of it that would help, best first.
    """

    decision: Decision
    given: GivenCase | None = None
    would_help: tuple[Help, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a diagnosis of the service's interface says it."""
        said = self.decision.to_json()
        if self.given is None:
            return said
        return {
            **said,
            "inputs": self.given.to_json(promised=self.decision.guarantee != "none"),
            "would_help": [one.to_json() for one in self.would_help],
        }


def diagnose(
    bundle: Bundle,
    pictures: bytes | Sequence[Picture],
    *,
    facts: Mapping[str, str] | None = None,
    skin_tone: str | None = None,
    skin_tone_scale: str | None = None,
) -> CaseDecision:
    """Decides on the bytes of one picture, or of a case, with a bundle.

    Args:
        bundle: whose model decides.
        pictures: the bytes of one picture; or several, each with its kind.
        facts: texts by the facts' names.
        skin_tone: the declared skin tone, if any.
        skin_tone_scale: the scale it was declared on.

    Raises:
        BundleError: a picture cannot be used, the model does not take what is given, or the bundle's graph
            cannot run.
    """
    manifest = bundle.manifest
    several = [(pictures, None)] if isinstance(pictures, bytes) else pictures
    try:
        kinds = kinds_of([content for content, _ in several], [kind for _, kind in several], manifest.case)
        given = read_given(manifest.case, kinds, facts or {})
    except ValueError as error:
        raise NotTakenError(str(error)) from error
    images = np.stack([decode_picture(content, manifest.picture) for content, _ in several])
    outputs = ask(Graph(bundle.model), [Question(images, given)])
    decision = decide(
        outputs.probabilities[0],
        manifest,
        pattern=given.pattern if given else None,
        embedding=outputs.embedding[0],
        skin_tone=skin_tone,
        skin_tone_scale=skin_tone_scale,
    )
    return CaseDecision(decision, given, would_help(given, manifest) if given else ())


def main(
    bundle: Annotated[Path, typer.Argument(help="A bundle's folder, e.g. runs/first/bundles/global.")],
    picture: Annotated[
        list[Path] | None, typer.Argument(help="A JPEG, PNG, WebP or DICOM file, of no kind in particular.")
    ] = None,
    close_up: Annotated[list[Path] | None, typer.Option(help="A close-up of the lesion.")] = None,
    dermoscopic: Annotated[list[Path] | None, typer.Option(help="A dermoscopic picture of it.")] = None,
    overview: Annotated[list[Path] | None, typer.Option(help="A picture of where it is.")] = None,
    fact: Annotated[list[str] | None, typer.Option(help="A fact, as NAME=VALUE, e.g. age=70.")] = None,
    skin_tone: Annotated[str | None, typer.Option(help="The declared skin tone, e.g. 5.")] = None,
    skin_tone_scale: Annotated[str, typer.Option(help="The scale it is declared on.")] = "fitzpatrick",
) -> None:
    """Print a bundle's answer for one lesion as JSON. Exit code 2 when it cannot be given."""
    named: list[tuple[list[Path] | None, Kind | None]]
    named = [(picture, None), (close_up, "close-up"), (dermoscopic, "dermoscopic"), (overview, "overview")]
    try:
        decision = diagnose(
            read_bundle(bundle),
            [(read_picture(path), kind) for paths, kind in named for path in paths or ()],
            facts=read_facts(fact or ()),
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


def read_facts(texts: Sequence[str]) -> dict[str, str]:
    """The facts of `NAME=VALUE` texts.

    Raises:
        NotTakenError: one is no such text, or a fact is there twice.
    """
    facts: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in facts:
            raise NotTakenError(
                f"fact {text!r} is not NAME=VALUE, or is there twice; write age=70, each once"
            )
        facts[name] = value
    return facts


if __name__ == "__main__":
    typer.run(main)
