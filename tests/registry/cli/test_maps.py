"""`dermfed-registry maps judge`: figures of maps in the bundle, and whether they are shown."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from registry.bundle.folder import bundle_digest, read_bundle, write_bundle
from registry.bundle.manifest.schema import ModelFile
from registry.bundle.maps.verdict import why_no_map
from registry.bundle.pictures.rule import PictureRule
from tests.map_graphs import SIZE, spot_graph, spots

pytestmark = pytest.mark.sqlite  # nothing here depends on the database
PICTURES = 110


@pytest.fixture
def table(tmp_path):
    """A manifest of pictures of spots, each patient twice, and a folder of masks."""
    folder, masks = tmp_path / "pictures", tmp_path / "masks"
    folder.mkdir()
    masks.mkdir()
    rows = []
    for number, one in enumerate(spots(PICTURES)):
        Image.fromarray(one.question.images[0]).save(folder / f"{number}.png")
        Image.fromarray(np.uint8(255 * one.mask)).save(masks / f"{number}_segmentation.png")
        tone = ("1", "3", "5")[number % 3]
        rows += [{"image": f"pictures/{number}.png", "patient_id": f"p{number}", "skin_tone": tone}] * 2
    path = tmp_path / "manifest.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def made(bundle, tmp_path):
    """`made(truth)`: the folder of a bundle whose map says the truth or something else."""

    def make(truth):
        graph = spot_graph(truth, classes=3)
        manifest = bundle(graph=graph, file=ModelFile.of(graph), picture=PictureRule(size=SIZE)).manifest
        write_bundle(tmp_path / truth, manifest, graph)
        return tmp_path / truth

    return make


def test_maps_that_show_what_counts_are_shown(command, made, table, tmp_path):
    folder, out = made("honest"), tmp_path / "judged"
    ended = command(
        "maps", "judge", folder, "--pictures", table, "--masks", tmp_path / "masks", "--out", out, "--json"
    )
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert (said["shown"], said["why_not"]) == (True, None)
    assert all(one["passed"] for one in said["checks"])
    judged, before = read_bundle(out), read_bundle(folder)
    assert judged.digest == said["digest"] == bundle_digest(judged.manifest)
    maps = judged.manifest.maps
    assert (maps.overall.n, maps.overall.masks, maps.overall.hits) == (PICTURES, PICTURES, PICTURES)
    assert [one.subgroup for one in maps.by_subgroup] == ["fitzpatrick 1", "fitzpatrick 3", "fitzpatrick 5"]
    assert judged.model == before.model
    assert judged.manifest.model_copy(update={"maps": None, "schema_version": 2}) == before.manifest
    assert why_no_map(judged.manifest, has_map=True) is None
    assert command("add", out).code == 0


def test_maps_that_show_something_else_are_kept_with_their_figures_and_not_shown(
    command, made, table, tmp_path
):
    out = tmp_path / "judged"
    ended = command("maps", "judge", made("inverted"), "--pictures", table, "--out", out, "--most", 100)
    assert ended.code == 1
    assert "refused  against elsewhere: " in ended.out
    assert "did not prove that its answers hang on where they point. The service shows none." in ended.out
    assert why_no_map(read_bundle(out).manifest, has_map=True) is not None
    assert read_bundle(out).manifest.maps.overall.chance is None


def test_what_cannot_be_judged_is_told(command, made, table, folders, bundle, tmp_path):
    out = tmp_path / "judged"
    (without,) = folders(bundle())
    ended = command("maps", "judge", without, "--pictures", table, "--out", out)
    assert (ended.code, "has no map" in ended.err) == (2, True)
    folder = made("honest")
    table.write_text("picture\na.png\n")
    ended = command("maps", "judge", folder, "--pictures", table, "--out", out)
    assert (ended.code, "one has to be `image`" in ended.err) == (2, True)
    table.write_text("image\npictures/none.png\n")
    ended = command("maps", "judge", folder, "--pictures", table, "--out", out)
    assert (ended.code, "none.png" in ended.err) == (2, True)
    table.write_text("image,skin_tone\npictures/0.png,17\n")
    ended = command("maps", "judge", folder, "--pictures", table, "--out", out)
    assert (ended.code, f"line 2 of {table} cannot be used" in ended.err) == (2, True)
    assert not out.exists()
