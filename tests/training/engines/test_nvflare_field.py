"""The stage `field` over a network: the same sums, under masks, and a node that was given nothing says so."""

import pytest

from benchmarks.loopback.permissive import permissive
from clients.node.request_handler import RequestHandler
from tests.field_files import FIRST, cell, file, stratum
from training.errors import QuorumError
from training.jobs.counts_under_masks import over_network

STAGE = {"stage": "field", "versions": [{"name": "1", "digest": FIRST}]}
KNOWN = {
    "north": file(cell(stratum(False, 1000, 800, 160), stratum(True, 500, 450, 360))),
    "south": file(cell(stratum(False, 10000, 200, 2), stratum(True, 500, 450, 90))),
    "west": file(cell(stratum(False, 300, 60, 3), stratum(True, 90, 70, 40))),
}


@pytest.fixture
def given(own_job, net, tmp_path):
    """Four hospitals, three of which were given counts of the field."""
    made = net(over_network(own_job(stages=[STAGE])))
    for name, known in KNOWN.items():
        path = tmp_path / f"{name}.json"
        path.write_text(known.model_dump_json())
        made.channels[name].reception = RequestHandler(
            name,
            made.job,
            made.manifests[name],
            cache=made.cache,
            states=made.folder / name / "clients",
            say=made.said.append,
            field=path,
            guard=permissive(made.folder / name),
        )
    return made


@pytest.mark.long
def test_counts_of_the_field_are_summed_over_a_network(given):
    facts = given.run().stages["0-field"].outcome.facts
    (dark,) = facts["field"]
    assert (dark["version"], dark["subgroup"], dark["hospitals"]) == ("1", "dark", 3)
    assert dark["outcomes"] == sum(one.cells[0].confirmed for one in KNOWN.values())
    assert (facts["hospitals"], facts["with_outcomes"]) == (4, 3)
    assert "without_outcomes" not in facts  # the coordinator does not know which
    assert "job tiny: no outcomes were given (--field); zeros are sent" in given.said
    assert "job tiny: 1,250 outcomes of demo until 2026-06-01" in given.said
    told = [line for line in given.said if "answers and outcomes of its service" in line]
    assert len(told) == 4
    assert all("masked numbers" in line for line in told)


@pytest.mark.long
def test_a_file_that_holds_no_counts_keeps_its_hospital_out_and_names_no_file(given, tmp_path):
    (tmp_path / "north.json").write_text("{}")
    with pytest.raises(QuorumError) as refused:
        given.run()
    assert "north.json" not in f"{refused.value}"
    assert any("north.json holds no counts of the field" in line for line in given.said)
