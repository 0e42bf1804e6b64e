"""A hospital that has no room, or may not work at this hour: the round waits, says so, and ends the same."""

import errno
import json
import os

import pytest

from clients.data.errors import ClientDataError
from clients.federation.errors import ClosedHoursError, LimitsError
from clients.node import request_handler
from tests.thorough import mostly_long
from tests.training.engines.test_flare_privacy import MASKS
from tests.training.engines.test_flare_same_weights import bytes_of
from tests.training.engines.test_flare_supervision import KEPT, OTHERS
from training.engines import network_round
from training.errors import CheckpointError, DataError, QuorumError, may_pass, public_message
from training.messages import Failure
from training.privacy.secagg.messages import MASKED, SHARE, UNMASK
from training.rounds.requests import FIT

TIMES = 2  # that it cannot
MANY = 60  # requests, that nobody is asked in so short a run


def no_file(number, kind=CheckpointError):
    """An error of ours behind which is one of the system."""
    error = kind("cannot write /srv/kit/north/state: details that stay there")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


PASSES = {
    "full disk": no_file(errno.ENOSPC),
    "full disk for states": no_file(errno.ENOSPC, DataError),
    "quota": no_file(errno.EDQUOT),
    "hours": ClosedHoursError("requests are answered 19:00 to 06:00"),
    "limits": LimitsError("limits.free_gb: 5 GB are to stay free"),
}
STAYS = {"no rights": no_file(errno.EACCES), "something else": QuorumError("no")}


@pytest.fixture
def cannot(monkeypatch):
    """`cannot(net, name, ask, error)`: a hospital fails so when it is first asked this; gives attempts."""
    monkeypatch.setattr(network_round, "AGAIN", 0.05)

    def arrange(net, name, ask, error, times=TIMES):
        reception, attempts, asked = net.channels[name].reception, [], []

        def heard(header):
            asked.append(header)
            assert len(asked) < MANY, "asked again and again, and never answered anew"

        net.channels[name].before_ask = heard
        answers = reception._allowed_answer

        def answer(request):
            if request.ask != ask or request.round not in (0, 2):
                return answers(request)
            attempts.append(request.round)
            if len(attempts) > times:
                return answers(request)
            return Failure(request.client, request.track, public_message(error))

        reception._allowed_answer = answer
        return attempts

    return arrange


@pytest.mark.parametrize(
    ("ask", "reason"),
    mostly_long(
        [*(("fit", reason) for reason in PASSES), ("test", "full disk")],
        *(("fit", "full disk"), ("fit", "hours")),
    ),
)
def test_the_round_waits_for_who_cannot_now_and_ends_with_the_same_bytes(
    own_job, net, here, cannot, reason, ask
):
    job = own_job(federate={**KEPT, "rounds": 2})
    there = net(job)
    attempts = cannot(there, "east", ask, PASSES[reason])
    assert bytes_of(there.run()) == bytes_of(here(job))
    assert len(attempts) == TIMES + 1
    assert "waits for east. east: " in there.progress.getvalue()
    assert "details that stay there" not in there.progress.getvalue()
    assert all(not line["failed"] for line in there.metrics())


@pytest.mark.parametrize(
    ("ask", "full"),
    mostly_long(
        [(FIT, "state"), (SHARE, "state"), (MASKED, "state"), (MASKED, "answer"), (UNMASK, "answer")],
        *((MASKED, "state"), (UNMASK, "answer")),
    ),
)
def test_a_disk_that_is_full_in_the_middle_of_a_sum_costs_nothing(own_job, net, here, monkeypatch, ask, full):
    """Attack: what a node keeps of a sum moves on, its answer is lost, and it refuses to give another."""
    monkeypatch.setattr(network_round, "AGAIN", 0.05)
    job = own_job(federate={"rounds": 2}, privacy=MASKS)
    there = net(job)
    east = there.channels["east"]
    asked, lost = [], []

    def before(header):
        asked[:] = [json.loads(header)["ask"]]

    east.before_ask = before
    save, write = east.reception._store.save, request_handler.write_response

    def lose(error):
        if asked == [ask] and len(lost) < TIMES:
            lost.append(error)
            raise error

    def save_and_lose(*state):
        save(*state)
        lose(no_file(errno.ENOSPC, ClientDataError))

    def lose_or_write(answer, request, payload):
        if request.client == "east" and not isinstance(answer, Failure):
            lose(no_file(errno.ENOSPC))
        return write(answer, request, payload)

    if full == "state":
        monkeypatch.setattr(east.reception._store, "save", save_and_lose)
    else:
        monkeypatch.setattr(request_handler, "write_response", lose_or_write)
    assert bytes_of(there.run()) == bytes_of(here(job))
    assert len(lost) == TIMES
    assert "waits for east. east: disk: " in there.progress.getvalue()
    assert all(not line["failed"] for line in there.metrics())


@pytest.mark.parametrize("reason", STAYS)
def test_the_control_what_nobody_can_wait_for_ends_the_run_at_once(own_job, net, cannot, reason):
    there = net(own_job(federate={**KEPT, "rounds": 2}))
    attempts = cannot(there, "east", "fit", STAYS[reason])
    with pytest.raises(QuorumError):
        there.run()
    assert len(attempts) == 1


def test_a_round_that_can_do_without_it_goes_on_and_names_it(own_job, net, cannot):
    there = net(own_job(federate=KEPT, engine={"min_clients": 3}))
    cannot(there, "east", "fit", PASSES["full disk"], times=10**6)
    there.run()
    lines = there.metrics()
    assert [line["answered"] for line in lines] == [
        [*OTHERS[:2], "east", "west"],
        OTHERS,
        [*OTHERS[:2], "east", "west"],
    ]
    assert "ENOSPC" in json.dumps(lines[1]["failed"])


def test_a_sentence_in_another_hospitals_own_words_is_no_reason_to_wait():
    assert not may_pass("north returns with other data than it began the run with; disk (ENOSPC: full)")
    assert not may_pass("")
