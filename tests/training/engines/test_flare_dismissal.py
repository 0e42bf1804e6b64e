"""A hospital that never returns: dismissed by name, on record everywhere, and the run ends without it."""

import json

import pytest

from personalization.report.data import report_data
from training.engines.calls import StoppedError
from training.errors import JobError

NAMES = ["north", "south", "east", "west"]
LEFT = ["north", "south", "west"]


@pytest.fixture
def waiting(own_job, net):
    """`waiting(ask, round, **changes)`: a run that waits for east, and was stopped while it did."""

    def build(ask, round_, **changes):
        there = net(own_job(**{"federate": {"rounds": 3}, **changes}))
        east = there.channels["east"]

        def before(header):
            read = json.loads(header)
            if (read["ask"], read["round"]) == (ask, round_):
                east.cut = "the hospital left"

        east.before_ask = before
        with pytest.raises(StoppedError):
            there.run(stopped=lambda: "waits for east" in there.progress.getvalue())
        del there.channels["east"]
        there.connect(*LEFT)
        return there

    return build


def test_a_hospital_that_is_gone_before_the_last_test_is_dismissed(waiting):
    there = waiting("test", 0, federate={"rounds": 1})
    result = there.run(without=("east",))
    assert "east dismissed: asked nothing more" in there.progress.getvalue()
    [(name, when)] = result.summary["dismissed"].items()
    assert name == "east"
    assert when.endswith(" UTC")
    assert set(result.stages["0-federate"].outcome.facts["by_client"]) == set(LEFT)
    note, *others = report_data(result).notes
    of_data = [f"{line}." for line in result.summary["notes"]]
    assert all(other.startswith("Not counted") or other in of_data for other in others)
    assert note.startswith(f"east was dismissed from the run on {when}: it was asked nothing more")
    # It taught the model; that its data were used stays on record.
    assert [line["answered"] for line in there.metrics()] == [NAMES]
    assert set(json.loads(there.run_folder.path.joinpath("roster.json").read_text())["fingerprints"]) == set(
        NAMES
    )


@pytest.mark.long
def test_in_the_middle_of_a_run_rounds_go_on_without_it_and_tell(waiting, own_job, net):
    there = waiting("fit", 2, engine={"min_clients": 4})
    fingerprint = net(own_job(federate={"rounds": 1}), "undisturbed").run().context.fingerprint
    with pytest.raises(StoppedError):
        there.run(without=("east",), stopped=lambda: len(there.metrics()) >= 2)
    # Once dismissed, it stays dismissed, whoever takes the run up.
    there.connect(*LEFT)
    result = there.run()
    lines = there.metrics()
    assert [line["asked"] for line in lines] == [NAMES, LEFT, LEFT]
    assert [sorted(line.get("dismissed", ())) for line in lines] == [[], ["east"], ["east"]]
    assert list(result.summary["dismissed"]) == ["east"]
    assert result.context.fingerprint == fingerprint
    assert there.progress.getvalue().count("east dismissed") == 1


def test_a_run_may_begin_without_one_and_never_without_all(own_job, net):
    there = net(own_job(federate={"rounds": 1}))
    del there.channels["east"]
    result = there.run(without=("east",))
    assert [line["asked"] for line in there.metrics()] == [LEFT]
    assert list(result.summary["dismissed"]) == ["east"]
    with pytest.raises(JobError, match="no hospital would be left"):
        there.run(without=LEFT)
