"""A process that takes the place of one that was killed, in a session that goes on."""

import json

import pytest

from clients.federation.job_folder import pack
from clients.node.hospital import open_door
from clients.node.rejoin import ENDED, FILE, LostError, Rejoin
from tests.clients.node.talk import SESSION, join
from training.engines.nvflare.channel import LOST, REFUSED, ChannelError, SiteRefusedError, raise_refusal
from training.engines.nvflare.chunking import ChunkAddress
from training.messages.message import Failure, Update


class Handler:
    def __init__(self, refuses=""):
        self.heard, self.refuses = [], refuses

    def _hear(self, *call):
        self.heard.append(call)
        return json.dumps({REFUSED: "not today"} if call[0] == self.refuses else {})

    def greet(self, greeting):
        return self._hear("greet", greeting)

    def introduce(self):
        return self._hear("introduce")

    def join(self, roster):
        return self._hear("join", roster)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / FILE


def test_it_agrees_again_to_what_was_agreed_in_this_session_and_in_no_other(path):
    first = Rejoin(path, SESSION)
    assert not first.before
    first.keep(greeting="hello")
    first.keep(roster="all")
    for session, heard in (
        (SESSION, [("greet", "hello"), ("introduce",), ("join", "all")]),
        ("another", []),
        (SESSION, []),  # since another has been there
    ):
        rejoin, handler = Rejoin(path, session), Handler()
        rejoin.replay(handler)
        assert handler.heard == heard
        assert rejoin.before == bool(heard)


def test_one_that_was_killed_before_it_joined_leaves_that_to_the_coordinator(path):
    Rejoin(path, SESSION)
    killed, handler = Rejoin(path, SESSION), Handler()
    killed.replay(handler)
    assert killed.before
    assert handler.heard == []
    killed.keep(greeting="hello")
    Rejoin(path, SESSION).replay(handler)
    assert handler.heard == [("greet", "hello"), ("introduce",)]


def test_a_file_that_cannot_be_read_is_none(path):
    path.parent.mkdir()
    for text in ("", "[1]", "{"):
        path.write_text(text)
        assert not Rejoin(path, SESSION).before


def test_what_this_node_does_not_agree_to_any_more_is_said(path):
    first = Rejoin(path, SESSION)
    first.keep(greeting="hello", roster="all")
    with pytest.raises(Exception, match="cannot go on: not today"):
        Rejoin(path, SESSION).replay(Handler(refuses="introduce"))


def test_a_step_of_a_sum_that_cannot_be_done_again_ends_the_job(path):
    ended: list[int] = []
    failure = Failure("north", "global", "out of turn")
    done = Update("north", "0-federate", 1, "masked", "global", {}, {}, {}, {})
    first = Rejoin(path, SESSION, ended.append)
    first.end_if_lost(failure, "masked")
    again = Rejoin(path, SESSION, ended.append)
    again.end_if_lost(failure, "fit")
    again.end_if_lost(done, "masked")
    assert ended == []
    again.end_if_lost(failure, "masked")
    assert ended == [ENDED]


def test_the_door_of_a_second_process_is_where_that_of_the_first_was(door, kit, small_job):
    """The same session and roster, another process: and what the first was asked it knows nothing of."""
    first = open_door(kit, pack(small_job), "skin-1", SESSION)
    join(first, small_job)
    second = open_door(kit, pack(small_job), "skin-1", SESSION)
    assert (first.takes_over, second.takes_over) == (False, True)
    assert second.receiver.handler.session == SESSION
    assert json.loads(first.ping())["process"] != json.loads(second.ping())["process"]
    told = second.fetch(ChunkAddress(session=SESSION, number=1, offset=0, size=9).model_dump_json())
    assert "started again" in json.loads(told)[LOST]
    with pytest.raises(ChannelError, match="started again"):
        raise_refusal(told)
    told = first.fetch(ChunkAddress(session=SESSION, number=1, offset=0, size=9).model_dump_json())
    with pytest.raises(SiteRefusedError, match="the last one answered is"):
        raise_refusal(told)
    with pytest.raises(LostError):
        second.receiver.handler.rejoin.refuse_lost()
