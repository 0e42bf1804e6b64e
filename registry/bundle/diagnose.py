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
from numpy.typing import NDArray

from registry.bundle.cases import EMPTY, CaseInput, GivenCase, Kind, read_given
from registry.bundle.decision import Decision, Help, decide, would_help
from registry.bundle.errors import BundleError, FolderError, NotTakenError
from registry.bundle.folder import Bundle, read_bundle
from registry.bundle.model import Graph, Outputs
from registry.bundle.pictures.dicom import is_dermoscopic
from registry.bundle.pictures.rule import decode_picture


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Question:
    """What a model is shown of one lesion.

    Attributes:
        images: its pictures as the model sees them, `(pictures, size, size, 3)` uint8 RGB.
        given: the facts given with them; None for a model of single pictures, which is shown one.
        with_map: whether it is asked where in the pictures the answer comes from, too.
    """

    images: NDArray[np.uint8]
    given: GivenCase | None = None
    with_map: bool = False


def kinds_of(
    pictures: Sequence[bytes], kinds: Sequence[Kind | None], case: CaseInput | None
) -> list[Kind | None]:
    """Of what kind each picture is: as was said, or as a DICOM file says of itself.

    Args:
        pictures: the bytes of each.
        kinds: as declared, None if not.
        case: what the model takes; None for a model of single pictures, which does not get them.

    Raises:
        ValueError: a DICOM file contradicts what was said.
    """
    if case is None or "dermoscopic" not in case.kinds:
        return list(kinds)
    found: list[Kind | None] = []
    for number, (content, kind) in enumerate(zip(pictures, kinds, strict=True), start=1):
        dermoscopic = is_dermoscopic(content)
        if dermoscopic and kind not in (None, "dermoscopic"):
            raise ValueError(
                f"picture {number} was given as {kind}, and the DICOM file says that it is dermoscopic; give "
                "it as what it is"
            )
        found.append("dermoscopic" if dermoscopic else kind)
    return found


def ask(graph: Graph, questions: Sequence[Question]) -> Outputs:
    """Runs a graph on questions to one model, all at once; the outputs are in their order.

    Cases get as many slots as the one with most pictures has: an empty slot costs as much as a picture. The
    outputs have a map where one of the questions asks for it, and the graph has one.

    Raises:
        GraphError: a question is not what the graph takes, or an answer is not finite.
    """
    given = [one.given for one in questions if one.given is not None]
    asked = {"with_map": True} if any(one.with_map for one in questions) else {}
    if not given:
        return graph.run(np.concatenate([one.images for one in questions]), **asked)
    slots = max(len(one.images) for one in questions)
    images = np.zeros((len(questions), slots, *questions[0].images.shape[1:]), dtype=np.uint8)
    kinds = np.full((len(questions), slots), EMPTY, dtype=np.int64)
    for row, (question, case) in enumerate(zip(questions, given, strict=True)):
        images[row, : len(question.images)] = question.images
        kinds[row, : len(case.kinds)] = case.kinds
    context = np.stack([case.context for case in given])
    return graph.run_cases(images, kinds, context, **asked)


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
        list[Path] | None,
        typer.Argument(help="A picture (JPEG, PNG, WebP, HEIC, AVIF, DICOM), of no kind in particular."),
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
