import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from clients.data.cli import app
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import read_manifest, write_manifest
from clients.data.synthetic import SKIN, case_of, draw
from clients.data.tones import check_tones, measure_tones
from registry.bundle.skin_tone import CAUTION, lab, skin_tone_angle, typology_angle


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})


def write_skin(folder: Path, rows: list[Row], colours: list[tuple[int, int, int]]) -> Path:
    """A picture of plain skin for each row; gives the manifest's path."""
    for row, colour in zip(rows, colours, strict=True):
        Image.new("RGB", (32, 32), colour).save(folder / row.image)
    write_manifest(Manifest.of(rows, folder), folder / "manifest.csv")
    return folder / "manifest.csv"


@pytest.fixture
def mislabelled(tmp_path):
    """Three tones of 10 pictures each; one dark picture is declared light, one has no tone."""
    colours = {"0": (78, 50, 40), "2": (168, 120, 88), "5": (227, 187, 158)}
    tones = [tone for tone in colours for _ in range(10)]
    shades = [
        (red + n % 3, green + n % 3, blue + n % 3)
        for n, tone in enumerate(tones)
        for red, green, blue in [colours[tone]]
    ]
    rows = [
        Row(image=f"{n}.png", skin_tone=tone, skin_tone_scale="milk10k", extra={"kind": "close-up"})
        for n, tone in enumerate(tones)
    ]
    # Copies enough of the light ones that one in a hundred is beyond their central range.
    more = [
        Row(image=f"more-{n}.png", skin_tone="5", skin_tone_scale="milk10k", extra={"kind": "close-up"})
        for n in range(90)
    ]
    wrong = Row(image="wrong.png", skin_tone="5", skin_tone_scale="milk10k", extra={"kind": "close-up"})
    bare = Row(image="bare.png", extra={"kind": "close-up"})
    return write_skin(
        tmp_path,
        [*rows, *more, wrong, bare],
        [*shades, *[colours["5"]] * 90, colours["0"], colours["5"]],
    )


def test_drawn_skin_has_the_order_of_its_types():
    found: dict[int, list[float]] = {}
    for index in range(120):
        case = case_of(5, index)
        angle = skin_tone_angle(draw(case, 64))
        if angle is not None:
            found.setdefault(case.tone, []).append(angle)
    medians = [float(np.median(found[tone])) for tone in sorted(found)]
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert medians == sorted(medians, reverse=True)
    colours = lab(SKIN.astype(np.uint8)).tolist()
    # Drawn light has a colour and falls off, which moves dark skin's angle by up to a dozen degrees.
    expected = [typology_angle(lightness, yellow) for lightness, _, yellow in colours]
    assert medians == pytest.approx(expected, abs=12)


def test_the_contradicting_row_is_found_and_told(mislabelled):
    answer = json.loads(run("tones", mislabelled, "--json", "--replicates", 0).stdout)
    (check,) = answer["checks"]
    assert [row["image"] for row in check["contradictions"]] == ["wrong.png"]
    assert check["contradictions"][0]["tone"] == "5"
    assert check["contradictions"][0]["looks_like"] == ["0"]
    assert check["agreement"]["spearman"]["interval"] is None
    assert set(check["ranges"]) == {"0", "2", "5"}
    assert answer["undeclared"] == 1
    text = run("tones", mislabelled, "--replicates", 2).stdout
    assert "wrong.png: declared 5, angle -66, looks like 0" in text
    assert "1 of 121 pictures contradict their declared tone" in text
    assert "1 pictures have no declared tone; they were not looked at" in text
    assert text.endswith(f"{CAUTION}\n")


def test_missing_tones_stay_missing(mislabelled):
    manifest = read_manifest(mislabelled)
    (mislabelled.parent / "bare.png").unlink()  # nobody opens it
    (mislabelled.parent / "0.png").write_text("no picture")
    before = mislabelled.read_bytes()
    seen = measure_tones(manifest)
    assert seen.undeclared == 1
    assert [text.partition(":")[0] for text in seen.broken] == ["0.png"]
    assert "bare.png" not in {picture.row.image for picture in seen.pictures}
    run("tones", mislabelled, "--replicates", 0)
    assert mislabelled.read_bytes() == before


def test_kinds_and_scales_are_never_mixed(tmp_path):
    rows = [
        Row(image=f"{n}.png", skin_tone="3", skin_tone_scale=scale, extra={"kind": kind})
        for n, (scale, kind) in enumerate((s, k) for s in ("monk", "milk10k") for k in ("near", "far"))
    ]
    manifest = write_skin(tmp_path, rows, [(168, 120, 88)] * 4)
    seen = measure_tones(read_manifest(manifest)).pictures
    parts = [(check.kind, check.agreement.scale) for check in check_tones(seen, by="kind")]
    assert parts == [("far", "milk10k"), ("far", "monk"), ("near", "milk10k"), ("near", "monk")]
    together = [(check.kind, check.agreement.pictures) for check in check_tones(seen)]
    assert together == [("", 2), ("", 2)]


def test_an_adapter_and_its_folder_or_several_manifests(mislabelled):
    folder = mislabelled.parent
    options = ("table=manifest.csv", "skin_tone=skin_tone", "scale=milk10k")
    words = [word for option in options for word in ("--option", option)]
    by_adapter = json.loads(run("tones", "csv", folder, *words, "--json", "--replicates", 0).stdout)
    assert by_adapter["checks"][0]["agreement"]["pictures"] == 121
    both = json.loads(run("tones", mislabelled, mislabelled, "--json", "--replicates", 0).stdout)
    assert both["checks"][0]["agreement"]["pictures"] == 242


def test_no_declared_tone_at_all(tmp_path):
    manifest = write_skin(tmp_path, [Row(image="a.png")], [(168, 120, 88)])
    result = run("tones", manifest)
    assert result.exit_code == 0
    assert result.stdout.startswith("1 pictures have no declared tone")
    assert result.stdout.endswith(f"{CAUTION}\n")


@pytest.mark.real
def test_real_close_ups_follow_their_tone_a_little(real_data):
    from clients.data.adapters.table import make_adapter

    manifest = make_adapter("milk10k", {}).manifest(real_data / "milk10k")
    rows = [row for row in manifest.rows if row.extra["image_type"] == "clinical: close-up"][::40]
    seen = measure_tones(manifest.keep(rows)).pictures
    (check,) = check_tones(seen, replicates=0)
    assert 0.2 < check.agreement.spearman.value < 0.8
