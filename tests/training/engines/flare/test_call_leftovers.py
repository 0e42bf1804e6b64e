"""What FLARE leaves of a message is freed before it is much."""

import gc
import weakref
from types import SimpleNamespace

import pytest
from nvflare.fuel.f3.streaming.blob_streamer import BlobStream
from nvflare.fuel.f3.streaming.byte_streamer import TxTask

from training.engines import flare_calls as module
from training.engines.calls import ChannelError, SiteRefusedError
from training.engines.flare_calls import BUFFER_BYTES, CallLeftovers, FlareCall

PIECE = b"x" * 100


@pytest.fixture
def rare_searches():
    """As with large libraries in memory, where Python searches for circles after hundreds of calls.

    What other tests left in memory is not searched.
    """
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


def sent() -> "weakref.ref[TxTask]":
    """A message that FLARE has sent and nobody refers to any more."""
    task = TxTask(None, BUFFER_BYTES, "c", "t", "north", {}, BlobStream(PIECE, {}), False, False, False)
    task.stopped = True
    return weakref.ref(task)


def test_flare_keeps_each_message_until_circles_are_searched_for(rare_searches):
    """The control: where this fails, FLARE frees its messages, and `CallLeftovers` can go."""
    assert all(each() is not None for each in [sent() for _ in range(20)])


def test_what_flare_keeps_is_freed_before_it_is_much(rare_searches):
    leftovers = CallLeftovers(limit=4 * BUFFER_BYTES)
    messages, alive = [], 0
    for _ in range(20):
        messages.append(sent())
        leftovers.add(len(PIECE))
        alive = max(alive, sum(each() is not None for each in messages))
    assert alive <= 3


class Proxy:
    """FLARE's proxy of a site, whose calls end as they are told to."""

    name = "north"

    def __init__(self, ends):
        self.ends, self.backend = ends, SimpleNamespace()

    def __call__(self, timeout):
        return self

    def put(self, place, piece):
        if isinstance(self.ends, Exception):
            raise self.ends
        return self.ends


@pytest.mark.parametrize("ends", [100, module.RunAborted("over")])
def test_every_call_counts_with_the_bytes_that_it_sent(monkeypatch, ends):
    monkeypatch.setattr(module, "set_call_context", lambda context: None)
    searches = []
    leftovers = CallLeftovers(limit=2 * (BUFFER_BYTES + 100), free=lambda: searches.append(1))
    call_site = FlareCall(Proxy(ends), None, leftovers, None, refuse=lambda: None)
    for call in range(1, 5):
        if isinstance(ends, Exception):
            with pytest.raises(ChannelError):
                call_site("put", 1, place="place", piece=PIECE)
        else:
            assert call_site("put", 1, place="place", piece=PIECE) == 100
        assert len(searches) == call // 2


@pytest.mark.parametrize(
    ("cause", "trace", "raised"),
    [
        ("timeout", None, ChannelError),
        ("shutting down", "Traceback", ChannelError),
        ("KeyError", "Traceback", SiteRefusedError),
    ],
)
def test_a_site_that_was_reached_and_failed_is_refused_and_others_are_offline(
    monkeypatch, cause, trace, raised
):
    monkeypatch.setattr(module, "set_call_context", lambda context: None)
    error = module.CollabCallError("north", "put", cause)
    error.cause, error.remote_traceback = cause, trace
    call_site = FlareCall(Proxy(error), None, CallLeftovers(), None, refuse=lambda: None)
    with pytest.raises(raised, match=cause):
        call_site("put", 1, place="place", piece=PIECE)
