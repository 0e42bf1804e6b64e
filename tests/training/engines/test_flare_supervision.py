"""Sites that die, return, fall asleep and lie: the run goes on, tells who was missing, and ends the same."""

import json
from threading import Event

import pytest
import torch

from personalization.report.data import of_hospitals
from tests.thorough import mostly_long
from tests.training.engines.test_flare_same_weights import bytes_of
from training.engines.calls import ChannelError, StoppedError
from training.engines.network_round import needed
from training.engines.registration import OfflineError
from training.errors import QuorumError
from training.messages import Broadcast

OTHERS = ["north", "south", "west"]
KEPT = {
    "rounds": 3,
    "sync": {"name": "except", "groups": ["norm"], "average_at_end": False},
    "objective": {"optimizer": {"name": "adam", "lr": 0.01, "state": "keep"}},
}


def asks(header, ask, round_=None):
    read = json.loads(header)
    return read["ask"] == ask and round_ in (None, read["round"])


@pytest.fixture
def lose():
    """`lose(net, name, ask, round)`: a site goes offline when asked this; it is back for the last test."""

    def arrange(net, name, ask, round_):
        line = net.channels[name]

        def before(header):
            if asks(header, ask, round_):
                line.cut = f"{name} was killed"

        def back(header):
            if asks(header, "test"):
                line.cut = None

        line.before_ask = before
        net.channels[next(other for other in net.channels if other != name)].before_ask = back

    return arrange


def test_a_site_that_dies_is_named_and_the_others_go_on(own_job, net, lose):
    there = net(own_job(federate=KEPT, engine={"min_clients": 3}))
    lose(there, "east", "fit", 2)
    heard, inner = [], there.channels["east"].before_ask

    def before(header):
        heard.append(json.loads(header)["round"])
        inner(header)

    there.channels["east"].before_ask = before
    there.run()
    lines = there.metrics()
    assert [line["answered"] for line in lines] == [["north", "south", "east", "west"], OTHERS, OTHERS]
    assert all("east" in line["asked"] for line in lines)
    assert "east was killed" in json.dumps(lines[1])
    assert "east was killed" in json.dumps(lines[2])
    assert heard.count(2) == 1
    assert 3 not in heard, "one that is known to be offline is not asked"


def test_a_round_below_its_minimum_waits_and_says_for_whom(own_job, net, in_thread, wait_until, here):
    job = own_job(federate=KEPT)
    there = net(job)
    east = there.channels["east"]
    done = []

    def before(header):
        if asks(header, "fit", 2) and not done:
            done.append(1)
            east.cut = "the cable is out"

    east.before_ask = before
    ran = []
    thread = in_thread(lambda: ran.append(there.run()))
    wait_until(lambda: "waits for east" in there.progress.getvalue())
    assert there.coordinator.status.waiting == ("east",)
    assert "the cable is out" in there.coordinator.status.offline["east"]
    east.cut = None
    thread.join(120)
    assert bytes_of(ran[0]) == bytes_of(here(job))


def test_a_lost_answer_is_asked_for_again_and_not_computed_again(own_job, net, here):
    """The site trained; its answer got lost on the way. The request comes again with the same number."""
    job = own_job(federate=KEPT)
    there = net(job)
    seen = []

    def after(header, answer):
        if asks(header, "fit", 2):
            seen.append(answer)
            if len(seen) == 1:
                raise ChannelError("the answer is lost")
        return answer

    there.channels["south"].after_ask = after
    result = there.run()
    assert len(seen) == 2
    assert seen[0][1] is seen[1][1]
    assert bytes_of(result) == bytes_of(here(job))


@pytest.mark.parametrize("what", mostly_long(["the request", "the answer"], "the request"))
def test_what_a_reset_connection_took_along_is_asked_for_again(own_job, net, here, what):
    """The call would wait for its deadline; the site is there all the time, and has nothing to do."""
    job = own_job(federate=KEPT)
    there = net(job)
    south = there.channels["south"]
    over, asked = Event(), []

    def before(header):
        if asks(header, "fit", 2):
            asked.append(json.loads(header)["number"])
            if len(asked) == 1 and what == "the request":
                over.wait(120)

    def after(header, answer):
        if asks(header, "fit", 2) and len(asked) == 1:
            over.wait(120)
        return answer

    south.before_ask, south.after_ask = before, after
    result = there.run()
    over.set()
    assert len(asked) >= 2
    assert len(set(asked)) == 1, "the same request, so the site answers the same and trains once"
    assert [line["answered"] for line in there.metrics()] == [["north", "south", "east", "west"]] * 3
    assert bytes_of(result) == bytes_of(here(job))


def test_client_properties_that_were_lost_are_asked_for_again(own_job, net):
    there = net(own_job(federate={"rounds": 1}))
    east = there.channels["east"]
    real, over, asked = east.register, Event(), []

    def register(seconds):
        asked.append(1)
        told = real(seconds)
        if len(asked) == 1:
            over.wait(120)
        return told

    east.register = register
    there.run()
    over.set()
    assert len(asked) >= 2


class Killed(BaseException):
    """What a killed coordinator knows of it."""


@pytest.mark.parametrize(
    "instant",
    mostly_long(["before the answers", "after the answers", "at the checkpoint"], "after the answers"),
)
def test_a_coordinator_that_is_killed_continues_with_the_same_weights(
    own_job, net, here, monkeypatch, instant
):
    from training.engines.flare import AcknowledgedRounds, NvflareEngine
    from training.rounds.server.checkpoint import Checkpoints

    where = {
        "before the answers": (AcknowledgedRounds, "save", 4),
        "after the answers": (NvflareEngine, "run_round", 4),
        "at the checkpoint": (Checkpoints, "save", 2),
    }
    owner, name, nth = where[instant]
    real, calls = getattr(owner, name), []

    def killed(self, *arguments):
        calls.append(1)
        result = real(self, *arguments) if instant != "before the answers" else None
        if len(calls) == nth:
            raise Killed
        return real(self, *arguments) if instant == "before the answers" else result

    job = own_job(federate=KEPT)
    there = net(job)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed)
        with pytest.raises(Killed):
            there.run()
    there.connect("north", "south", "east", "west")
    assert bytes_of(there.run()) == bytes_of(here(job))


def test_a_training_whose_answer_was_not_used_never_happened(own_job, net, here, wait_until):
    """East trains in round 2 and its answer is late; round 3 must not begin with what it kept then.

    The same as a run in which east was asked and failed before it trained.
    """
    job = own_job(federate=KEPT, engine={"min_clients": 3})
    late, never = net(job, "late"), net(job, "never")

    def lose(header, answer=None):
        if asks(header, "fit", 2):
            raise ChannelError("late")
        return answer

    late.channels["east"].after_ask = lose
    never.channels["east"].before_ask = lose

    def is_back(each):
        status = each.coordinator.status
        return "east" in status.answered and "east" not in status.offline

    results = []
    for each in (late, never):

        def before(header, each=each):
            if asks(header, "evaluate", 2):  # or round 3 might begin without east
                wait_until(lambda: is_back(each))

        each.channels["north"].before_ask = before
        results.append(each.run())
    first, second = ([line["answered"] for line in each.metrics()] for each in (late, never))
    assert first == second
    assert [len(names) for names in first] == [4, 3, 4]
    assert first[1] == OTHERS
    assert bytes_of(results[0]) == bytes_of(results[1])
    assert bytes_of(results[0]) != bytes_of(here(job))


def test_the_run_begins_when_every_site_is_there(own_job, net):
    there = net(own_job())
    del there.channels["west"]
    with pytest.raises(OfflineError, match="west: it is not connected"):
        there.run()


def test_a_run_begins_without_a_site_that_is_away_where_the_job_says_so_and_names_it(own_job, net):
    job = own_job(
        federate={**KEPT, "rounds": 1}, engine={"network": {"heartbeat_timeout": 30, "quorum": 0.75}}
    )
    there = net(job)
    del there.channels["west"]
    result = there.run()
    assert "it was offline when the run began" in result.summary["left_out"]["west"]
    assert there.metrics()[0]["asked"] == [name for name in there.manifests if name != "west"]
    assert "west took no part in the run" in " ".join(of_hospitals(result.summary, []))


@pytest.mark.parametrize(
    ("quorum", "ask", "needed_of_ten"),
    [(1.0, "test", 10), (0.85, "test", 9), (0.85, "census", 10), (0.85, "fit", 10), (0.85, "evaluate", 0)],
)
def test_how_many_answers_a_question_waits_for(own_job, quorum, ask, needed_of_ten):
    job = own_job(evaluation={"quorum": quorum}, privacy={"counts": {"masks": False}})
    stage = "census" if ask == "census" else "0-federate"
    assert needed(job, Broadcast("north", stage, 0, ask), 10) == needed_of_ten


def test_with_enough_answers_a_round_ends_early_where_the_job_says_so(own_job, net):
    job = own_job(
        federate={**KEPT, "rounds": 1, "evaluate_on": None},
        engine={"min_clients": 3, "network": {"heartbeat_timeout": 30, "enough": True}},
    )
    there = net(job)
    release = Event()
    east = there.channels["east"]

    def before(header):
        if asks(header, "fit"):
            release.wait(120)

    east.before_ask = before
    there.run()
    release.set()
    [line] = there.metrics()
    assert line["answered"] == OTHERS
    assert "came too late: the round ended with 3 answers" in json.dumps(line)


def test_a_node_with_other_labels_is_left_out_and_named(own_job, net, manifests, tmp_path):
    strange = tmp_path / "east.csv"
    strange.write_text(manifests["east"].read_text().replace(",MEL,", ",CAT,"))
    there = net(own_job(engine={"min_clients": 3}))
    there.manifests = {**manifests, "east": strange}
    there.connect("east")
    result = there.run()
    assert result.context.census.counts.keys() == set(OTHERS)
    told = "labels: its labels do not fit the job's label map; its own log says more"
    assert f"east is left out: {told}" in there.progress.getvalue()
    assert any("labels that are not in the taxonomy" in line and "CAT" in line for line in there.said)
    # Without the minimum the run does not begin, and says why.
    other = net(own_job(), "other")
    other.manifests = there.manifests
    other.connect("east")
    with pytest.raises(QuorumError, match=f"east: {told}") as refused:
        other.run()
    assert "CAT" not in f"{refused.value}"  # what stands in a hospital's table is told at home alone


def test_a_node_that_returns_with_other_pictures_is_refused(own_job, net, manifests, tmp_path, lose):
    fewer = tmp_path / "east.csv"
    fewer.write_text("\n".join(manifests["east"].read_text().splitlines()[:-4]) + "\n")
    job = own_job(federate=KEPT, engine={"min_clients": 3})
    there = net(job)
    with pytest.raises(StoppedError):
        there.run(stopped=lambda: len(there.metrics()) >= 1)
    there.manifests = {**manifests, "east": fewer}
    there.connect("north", "south", "east", "west")
    with pytest.raises(StoppedError):  # the last test waits for east
        there.run(stopped=lambda: "east" in there.coordinator.status.waiting)
    assert "east returns with other data than it began the run with" in there.progress.getvalue()
    at_home = [line for line in there.said if "east returns with other data" in line]
    assert at_home, "its own console says why"
    assert there.metrics()[-1]["answered"] == OTHERS


def test_an_old_answer_nan_and_wrong_shapes_are_refused_and_named(own_job, net):
    job = own_job(federate=KEPT, engine={"min_clients": 2})
    there = net(job)
    old = {}

    def replay(header, answer):
        if asks(header, "fit", 1):
            old["answer"] = answer
        return old["answer"] if asks(header, "fit", 2) else answer

    def poison(header, answer):
        from training.engines.wire import read_payload, write_payload

        if not asks(header, "fit", 2):
            return answer
        head, body = answer
        tensors = read_payload(body)
        name = next(iter(tensors))
        tensors[name] = torch.full_like(tensors[name], float("nan"))
        return head, write_payload(tensors)

    there.channels["north"].after_ask = replay
    there.channels["south"].after_ask = poison
    there.run()
    line = there.metrics()[1]
    assert line["answered"] == ["east", "west"]
    told = json.dumps(line)
    assert "north answered another request: number" in told
    assert "with values that are not finite" in told
    assert there.metrics()[2]["answered"] == ["north", "south", "east", "west"]


def test_the_coordinators_own_pictures_are_one_more_client(own_job, net, manifests, tmp_path):
    from clients.node.own_data import agreed, read_own
    from clients.store import ClientStore
    from training.data.dataset import SERVER
    from training.engines.session import OwnPictures
    from training.errors import JobError
    from training.jobs.client_app import ClientApp

    job = own_job(data={"server": {"share": 0.2, "train": 0.5}}, federate={"rounds": 1})
    own = read_own(job, SERVER, manifests["north"], tmp_path / "cache")
    there = net(job)
    there.run(
        own=OwnPictures(
            own.properties,
            lambda decided, roster: ClientApp(decided, agreed(own, roster), ClientStore(tmp_path / "server")),
        )
    )
    [line] = there.metrics()
    assert line["answered"] == ["north", "south", "east", "west", "server"]
    with pytest.raises(JobError, match="started without --data"):
        net(job, "bare").run()


def test_a_site_that_will_not_join_is_left_out_or_ends_the_run_before_it_begins(own_job, net):
    job = own_job(engine={"min_clients": 3}, federate={"rounds": 1})
    there = net(job)
    there.channels["south"].join = lambda roster, seconds: json.dumps({"refused": "no memory for the model"})
    there.run()
    assert "south is left out: no memory for the model" in there.progress.getvalue()
    assert there.metrics()[0]["answered"] == ["north", "east", "west"]
    other = net(own_job(), "other")
    other.channels["south"].join = there.channels["south"].join
    with pytest.raises(QuorumError, match="south: no memory for the model"):
        other.run()


def test_a_run_that_is_stopped_leaves_out_nobody_for_that(own_job, net, wait_until):
    """FLARE ends all calls of a job at once; a site whose answer was still to come is not offline."""
    there = net(own_job(federate={**KEPT, "evaluate_on": None}, engine={"min_clients": 3}))
    stopped, answered = [], set()
    for name in OTHERS:
        there.channels[name].after_ask = lambda header, answer, name=name: (
            answered.add(name) if asks(header, "fit", 2) else None,
            answer,
        )[1]
    east = there.channels["east"]

    def before(header):
        if asks(header, "fit", 2):
            wait_until(lambda: answered == set(OTHERS))
            stopped.append(1)
            east.cut = "the run was ended"

    east.before_ask = before
    with pytest.raises(StoppedError):
        there.run(stopped=lambda: bool(stopped))
    assert [line["round"] for line in there.metrics()] == [1]
