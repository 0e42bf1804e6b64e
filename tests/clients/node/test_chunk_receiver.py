"""Long requests and answers in pieces, whatever gets lost on the way."""

import json
import threading

import pytest

from clients.node.request_handler import ChunkReceiver
from training.engines import calls as module
from training.engines.calls import TRIES, Channel, ChannelError, ChunkAddress, Heartbeat, SiteRefusedError
from training.engines.wire import part_of, size_of, stamp_of, write_request
from training.errors import MessageError
from training.messages import Broadcast

PIECE = 10
QUESTION, ANSWER = bytes(range(95)), bytes(reversed(range(123)))


def whole(body):
    return part_of(body, 0, size_of(body))


class ScriptedHandler:
    """Answers what it is told to, and remembers what it was asked."""

    def __init__(self, payload=ANSWER):
        self.payload, self.asked, self.session = payload, [], "s1"

    def answer(self, header, body):
        self.asked.append(whole(body))
        return "head", self.payload

    def close(self):
        self.payload = None

    def heartbeat(self):
        return Heartbeat(busy=False, answer=len(self.payload))


class Carrier:
    """A line to a receiver, on which chosen calls are lost before they arrive or afterwards."""

    def __init__(self, receiver):
        self.receiver, self.calls, self.lost_before, self.lost_after = receiver, [], set(), set()

    def __call__(self, kind, seconds, **arguments):
        call = len(self.calls)
        self.calls.append((kind, *arguments.values()))
        if call in self.lost_before:
            raise ChannelError("lost on its way there")
        payload = getattr(self.receiver, kind)(*arguments.values())
        if call in self.lost_after:
            raise ChannelError("lost on its way back")
        return payload


@pytest.fixture
def handler():
    return ScriptedHandler()


@pytest.fixture
def carrier(handler, tmp_path):
    receiver = ChunkReceiver(handler, tmp_path, PIECE)
    yield Carrier(receiver)
    receiver.close()


@pytest.fixture
def pieces(carrier, tmp_path):
    return Channel("north", carrier, tmp_path, 60, threading.BoundedSemaphore(1), PIECE)


def alive():
    """Nobody asks."""


def request(number=1):
    asked = Broadcast("north", "0-federate", 1, "fit")
    return write_request(asked, stamp_of(asked, "job", "s1", number), 0)


def place(offset, number=1):
    return ChunkAddress(session="s1", number=number, offset=offset, size=len(QUESTION)).model_dump_json()


@pytest.mark.parametrize("length", [0, 1, PIECE, PIECE + 1, 3 * PIECE, 95])
def test_what_is_asked_and_answered_arrives_whole(pieces, carrier, handler, tmp_path, length):
    handler.payload = ANSWER[:length]
    head, payload = pieces.ask(request(), QUESTION[:length], 60, alive)
    assert (head, whole(payload), handler.asked) == ("head", ANSWER[:length], [QUESTION[:length]])
    kinds = [kind for kind, *_ in carrier.calls]
    pieces_of = -(-length // PIECE) if length > PIECE else 0
    assert kinds == ["put"] * pieces_of + ["answer"] + ["fetch"] * pieces_of
    assert max(len(each) for _, *rest in carrier.calls for each in rest if isinstance(each, bytes)) <= PIECE
    carrier.receiver.close()
    assert list(tmp_path.iterdir()) == ([payload] if length > PIECE else []), (
        "a node leaves no request behind"
    )


@pytest.mark.parametrize("lost", ["lost_before", "lost_after"])
def test_a_piece_that_gets_lost_is_sent_again_and_nothing_else(pieces, carrier, handler, lost):
    getattr(carrier, lost).update({2, 3, 15})
    _, payload = pieces.ask(request(), QUESTION, 60, alive)
    assert (whole(payload), handler.asked) == (ANSWER, [QUESTION])
    assert len(carrier.calls) == 10 + 1 + 13 + 3


def test_a_site_that_takes_no_piece_is_not_reached(pieces, carrier, handler):
    carrier.lost_before.update(range(4, 4 + TRIES))
    with pytest.raises(ChannelError, match="lost on its way there"):
        pieces.ask(request(), QUESTION, 60, alive)
    assert not handler.asked
    carrier.calls.clear()
    carrier.lost_before.clear()
    assert whole(pieces.ask(request(), QUESTION, 60, alive)[1]) == ANSWER
    puts = [json.loads(where)["offset"] for kind, where, *_ in carrier.calls if kind == "put"]
    assert puts == [0, 40, 50, 60, 70, 80, 90], "asked anew, it goes on where it was"


def test_a_later_question_takes_the_place_of_an_earlier_one(carrier, pieces, handler):
    receiver = carrier.receiver
    assert receiver.put(place(0, number=1), QUESTION[:PIECE]) == PIECE
    assert receiver.put(place(0, number=2), QUESTION[:PIECE]) == PIECE
    with pytest.raises(MessageError, match="a piece of request 1 is stale: request 2 has begun to arrive"):
        receiver.put(place(PIECE, number=1), QUESTION[:PIECE])
    with pytest.raises(MessageError, match="request 1 came without its tensors"):
        receiver.answer(request(1), b"", len(QUESTION))
    with pytest.raises(MessageError, match="10 of 95 bytes of request 2 are here"):
        receiver.answer(request(2), b"", len(QUESTION))
    pieces.ask(request(3), b"", 60, alive)
    with pytest.raises(MessageError, match="answer to request 2 was asked for; the last one answered is 3"):
        receiver.fetch(place(0, number=2))


def test_what_may_be_on_its_way_with_the_call_is_reported(carrier, pieces, handler):
    assert carrier.receiver.heartbeat() == Heartbeat(busy=False, answer=0)
    handler.payload = ANSWER[:PIECE]
    assert carrier.receiver.heartbeat() == Heartbeat(busy=False, answer=PIECE)


def test_every_try_and_every_wait_for_a_turn_is_a_sign_of_life(carrier, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TURN", 0.01)
    moving, signs, waited = threading.BoundedSemaphore(1), [], threading.Event()

    def sign():
        signs.append(len(carrier.calls))
        if len(signs) > 2:
            waited.set()

    moving.acquire()
    pieces = Channel("north", carrier, tmp_path, 60, moving, PIECE)
    thread = threading.Thread(target=pieces.ask, args=(request(), QUESTION, 60, sign))
    thread.start()
    assert waited.wait(60)
    assert carrier.calls == []
    moving.release()
    thread.join(60)
    assert set(range(10)) | set(range(11, 24)) <= set(signs), "before each piece"


def test_a_part_of_a_piece_that_a_full_disk_left_is_written_over(carrier, pieces, handler):
    carrier.receiver.put(place(0), QUESTION[:PIECE])
    with carrier.receiver._incoming._path.open("ab") as file:
        file.write(b"xyz")  # and then there was no room
    pieces.ask(request(), QUESTION, 60, alive)
    assert handler.asked == [QUESTION]


def test_pieces_of_another_session_are_dropped(carrier, handler):
    handler.session = "s2"
    with pytest.raises(MessageError, match="of session s1, which is over"):
        carrier.receiver.put(place(0), QUESTION[:PIECE])


@pytest.mark.parametrize(
    ("call", "payload", "match"),
    [
        ("put", 0, "north has 0 of 95 bytes after a piece at 0"),
        ("put", 1, "north has 1 of 95 bytes after a piece at 0"),
        ("put", 96, "north has 96 of 95 bytes"),
        ("answer", ("head", b"1", 0), "north answers with 0 bytes"),
        ("answer", ("head", b"1", 1 << 50), "1,125,899,906,842,624 bytes; 17,179,869,184 are taken at most"),
        ("fetch", b"", "north sent 0 bytes at 0 of 123"),
        ("fetch", ANSWER[:1], "north sent 1 bytes at 0 of 123"),  # by drops it would take a hundred years
        ("fetch", ANSWER + b"x", "north sent 124 bytes at 0 of 123"),
    ],
)
def test_a_site_that_miscounts_is_refused_at_once(pieces, carrier, monkeypatch, call, payload, match):
    calls = []
    monkeypatch.setattr(carrier.receiver, call, lambda *_: calls.append(call) or payload)
    with pytest.raises(SiteRefusedError, match=match):
        pieces.ask(request(), QUESTION, 60, alive)
    assert calls == [call]


@pytest.mark.parametrize(("model", "taken"), [(10, False), (len(ANSWER), True)])
def test_an_answer_that_no_model_of_the_job_is_as_large_as_is_refused_before_it_is_fetched(
    carrier, handler, tmp_path, monkeypatch, model, taken
):
    monkeypatch.setattr(module, "ROOM", PIECE)
    monkeypatch.setattr(module, "MODELS", 1)
    handler.payload = ANSWER
    room = threading.BoundedSemaphore(1)
    transfer = Channel("north", carrier, tmp_path, 60, room, PIECE, model_bytes=lambda: model)
    if taken:
        assert whole(transfer.ask(request(), QUESTION, 60, alive)[1]) == ANSWER
        return
    with pytest.raises(SiteRefusedError, match="are taken at most"):
        transfer.ask(request(), QUESTION, 60, alive)
    assert "fetch" not in [kind for kind, *_ in carrier.calls]


NO_FORM = "answered something that is no message|answered (list|str), and no|gave no heartbeat"


@pytest.mark.parametrize(
    ("reply", "match"),
    [
        ('{"refused": "no such pictures"}', "no such pictures"),
        *((other, NO_FORM) for other in ("[]", [], ["head", b""], [1, b"", 0])),
    ],
)
@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("ping", lambda site: site.ping(1)),
        ("answer", lambda site: site.ask(request(), b"", 60, alive)),
        ("put", lambda site: site.ask(request(), QUESTION, 60, alive)),
        ("fetch", lambda site: site.ask(request(), b"", 60, alive)),
    ],
)
def test_a_site_that_replies_in_another_form_is_refused(tmp_path, kind, ask, reply, match):
    replies = {"answer": ["head", b"", 100], kind: reply}
    site = Channel(
        "north", lambda called, *_, **__: replies[called], tmp_path, 60, threading.BoundedSemaphore(1), PIECE
    )
    with pytest.raises(SiteRefusedError, match=match):
        ask(site)
