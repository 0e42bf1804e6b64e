import sys

import pytest

from clients.data.adapters.table import ADAPTERS, adapter_names, find_adapter, make_adapter
from clients.data.errors import AdapterError
from registry.bundle.errors import PartError

PLUGIN = """
from pathlib import Path
from typing import Literal

from clients.data.adapters.adapter import Adapter
from clients.data.manifest import Manifest, Row


class OurClinic(Adapter):
    name: Literal["our-clinic"] = "our-clinic"
    label: str = "NV"

    def manifest(self, folder: Path) -> Manifest:
        return Manifest.of([Row(path.name, self.label) for path in sorted(folder.glob("*.jpg"))], folder)


not_an_adapter = "text"
"""


@pytest.fixture
def installed_plugin(tmp_path, monkeypatch):
    """Another package that offers adapters, as pip would leave it."""
    site = tmp_path / "site"
    information = site / "ourclinic-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "ourclinic_plugin.py").write_text(PLUGIN)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: ourclinic\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[dermfed.adapters]\n"
        "our-clinic = ourclinic_plugin:OurClinic\n"
        "wrong = ourclinic_plugin:not_an_adapter\n"
        "csv = ourclinic_plugin:OurClinic\n"
    )
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("ourclinic_plugin", None)


@pytest.mark.usefixtures("installed_plugin")
def test_an_adapter_of_another_package_is_found_by_name(tmp_path):
    (tmp_path / "a.jpg").touch()
    assert "our-clinic" in adapter_names()
    manifest = make_adapter("our-clinic", {"label": "MEL"}).manifest(tmp_path)
    assert [(row.image, row.label) for row in manifest.rows] == [("a.jpg", "MEL")]


@pytest.mark.usefixtures("installed_plugin")
def test_another_package_cannot_replace_ours_nor_offer_what_is_no_adapter():
    assert find_adapter("csv") is ADAPTERS.own["csv"]
    with pytest.raises(AdapterError, match=r"'wrong' .*is no subclass of Adapter"):
        find_adapter("wrong")


def test_an_unknown_adapter_names_the_nearest():
    with pytest.raises(AdapterError, match="'ham1000'; did you mean `ham10000`"):
        find_adapter("ham1000")


@pytest.mark.usefixtures("installed_plugin")
def test_a_list_tells_that_another_package_tried():
    with pytest.raises(
        PartError, match=r"two adapters are called csv: .*:CsvTable of dermfed and ourclinic_"
    ):
        _ = ADAPTERS.members
