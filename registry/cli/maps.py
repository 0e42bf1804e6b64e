"""`dermfed-registry maps judge`: whether the maps of a bundle show what its answers hang on."""

from pathlib import Path
from typing import Annotated

import typer

from registry.bundle.folder import Bundle, write_bundle
from registry.bundle.manifest.map_judgement import MapJudgement
from registry.bundle.manifest.schema import BundleManifest
from registry.bundle.manifest.schema_numbers import JUDGED_SCHEMA
from registry.bundle.maps.verdict import Check, checks, why_no_map
from registry.cli.arguments import AsJson
from registry.cli.output import REFUSED, answer
from registry.errors import InvalidName
from registry.own_version import own_version
from registry.rendering.table import lines_of

JUDGE_EXAMPLES = (
    "runs/first/bundles/global --pictures manifest.csv --out judged/global",
    "bundles/dark --pictures manifest.csv --masks masks/ --most 300 --out judged/dark --json",
)


def maps_judge(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE_DIR", help="The bundle's folder.")],
    pictures: Annotated[
        Path,
        typer.Option(
            metavar="CSV",
            help="A manifest of pictures that the model was not trained on, with skin tones where known.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the judged bundle is written.")],
    masks: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Masks, NAME.png or NAME_segmentation.png, white on the lesion."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Pictures at most, one of each patient.")] = 500,
    seed: Annotated[int, typer.Option(help="Of what is drawn at random.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Judge the maps of a bundle on pictures, and write the bundle with what was found.

    Covers what the maps point to, and other parts, and looks what the model makes of the rest. The limits
    are fixed, and the service shows maps of versions alone that keep them. Add the judged bundle in place of
    the other. Nothing of a picture is written but counts. Exit code 1: the maps are not shown.
    """
    from registry.bundle.maps.judge import judge
    from registry.cli.map_pictures import judged_pictures
    from registry.releases.validate_bundle import check_bundle, read_folder

    given = read_folder(bundle)
    check_bundle(given)
    shown = judged_pictures(pictures, given.manifest, most, masks)
    try:
        found = judge(given.model, shown, seed, own_version())
    except ValueError as error:
        raise InvalidName(f"{pictures} cannot be used: {error}") from error
    judged = with_judgement(given, found)
    digest = write_bundle(out, judged, given.model)
    why = why_no_map(judged, has_map=True)
    data = {
        "folder": str(out),
        "digest": digest,
        "shown": why is None,
        "why_not": why,
        "checks": [_data(one) for one in checks(found)],
        "maps": found.model_dump(mode="json"),
    }
    answer(data, _text(found, out, why), as_json)
    if why is not None:
        raise typer.Exit(REFUSED)


def with_judgement(bundle: Bundle, found: MapJudgement) -> BundleManifest:
    """The manifest of a bundle with what was found of its maps; the signature of its figures stays good."""
    told = bundle.manifest.model_dump() | {"maps": found.model_dump(), "schema_version": JUDGED_SCHEMA}
    return BundleManifest.model_validate(told)


def _data(one: Check) -> dict[str, object]:
    return {
        "name": one.name,
        "subgroup": one.subgroup,
        "value": one.value,
        "interval": list(one.interval),
        "limit": one.limit,
        "passed": one.passed,
    }


def _text(found: MapJudgement, out: Path, why: str | None) -> str:
    lines = [
        f"{'passed ' if one.passed else 'refused'}  {one.name}{f', {one.subgroup}' if one.subgroup else ''}: "
        f"{one.value:.2f} ({one.interval[0]:.2f} to {one.interval[1]:.2f}); needed is over {one.limit:.2f}"
        for one in checks(found)
    ]
    said = "The service shows the maps of this version." if why is None else f"{why} The service shows none."
    return lines_of([*lines, said, f"The judged bundle is in {out}, of {found.overall.n} pictures."])
