import numpy as np
import pytest
from PIL import Image

from clients.data.errors import ClientDataError
from clients.data.manifest_file import read_manifest
from clients.data.synthetic import case_of, draw, write_synthetic


def test_pictures_and_manifest_say_the_same(tmp_path):
    manifest = write_synthetic(tmp_path / "out", pictures=7, size=32, seed=3)
    assert read_manifest(tmp_path / "out" / "manifest.csv").rows == manifest.rows
    for index, row in enumerate(manifest.rows):
        case = case_of(3, index)
        assert (np.asarray(Image.open(tmp_path / "out" / row.image)) == draw(case, 32)).all()
        assert (row.label, row.skin_tone, row.skin_tone_scale) == (case.label, str(case.tone), "fitzpatrick")
    assert manifest.rows[4].lesion_id == manifest.rows[5].lesion_id


def test_an_empty_folder_is_filled_and_another_is_left_alone(tmp_path):
    (tmp_path / "empty").mkdir()
    assert len(write_synthetic(tmp_path / "empty", pictures=6, size=32, seed=0).rows) == 6
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(ClientDataError, match="full holds other files"):
        write_synthetic(tmp_path / "full", pictures=6, size=32, seed=0)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full"]
