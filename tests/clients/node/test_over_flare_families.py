"""Every family of algorithms over real processes: the bytes that one machine ends with."""

import json

import pytest

from tests.clients.node.federated import HOSPITALS, running, weights
from tests.families import FAMILIES

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    with running(tmp_path_factory.mktemp("federated")) as made:
        yield made


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_ends_with_the_bytes_of_one_machine(net, tiny, family):
    changes = FAMILIES[family]
    data = {
        "manifest": [f"{name}.csv" for name in HOSPITALS],
        "label_map": "malignancy",
        "image_size": 16,
        "clients": {"by": "manifest"},
    }
    job = {**tiny, **changes, "name": family, "data": {**data, **changes.get("data", {})}}
    ended, _ = net.there(job)
    assert ended.returncode == 0, ended.stderr
    path, near = net.folder / f"{family}-here.json", net.folder / "here" / family
    path.write_text(json.dumps(job))
    ended = net.run(path, near)
    assert ended.returncode == 0, ended.stderr
    found = weights(near)
    assert found
    assert weights(net.results(family)) == found
