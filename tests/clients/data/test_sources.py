from pathlib import Path

import pytest

from clients.data.errors import ClientDataError
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import write_manifest
from clients.data.sources import read_sources, server_split
from training.data.settings import DataConfig, ServerConfig


def names(folder: Path, *manifests: str) -> list[str]:
    for name in manifests:
        write_manifest(Manifest.of([Row("a.jpg")], folder), folder / name)
    config = DataConfig(manifest=manifests)
    return [source.name for source in read_sources(config, folder, folder / "cache")]


def test_manifests_are_named_by_as_much_of_their_path_as_it_takes(tmp_path):
    assert names(tmp_path, "vienna.csv", "brisbane.csv") == ["vienna", "brisbane"]
    assert names(tmp_path, "v/m.csv", "b/m.csv") == ["v/m", "b/m"]
    assert names(tmp_path, "1/x/m.csv", "2/x/m.csv", "2/y/n.csv") == ["1/x/m", "2/x/m", "2/y/n"]


def test_the_same_manifest_twice_is_refused(tmp_path):
    with pytest.raises(ClientDataError, match="names a file twice"):
        names(tmp_path, "a.csv", "a.csv")
    with pytest.raises(ClientDataError, match="names no file"):
        names(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.8, 1.0])
def test_the_coordinators_pictures_are_trained_on_by_the_share_that_was_named(share):
    split = server_split(ServerConfig(share=0.1, train=share))
    assert (split.train, split.validation) == pytest.approx((share, 1 - share), abs=1e-8)
    assert split.validation > 0 < split.train
