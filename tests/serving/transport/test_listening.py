import errno
import select
import socket
import sys

import pytest

from serving.transport.listening import close, listen, refuse_new


def test_a_name_is_all_its_addresses():
    opened = listen("localhost", 0)
    try:
        assert {one.getsockname()[0] for one in opened} <= {"127.0.0.1", "::1"}
        assert opened
        for one in opened:
            socket.create_connection(one.getsockname()[:2], timeout=60).close()
    finally:
        close(opened)


@pytest.mark.skipif(sys.platform != "linux", reason="such filters are Linux'")
def test_a_queue_that_is_closed_keeps_what_it_holds_and_takes_no_more():
    (listening,) = listen("127.0.0.1", 0)
    with listening:
        place = listening.getsockname()
        with socket.create_connection(place, timeout=60) as before:
            before.sendall(b"a request")
            refuse_new(listening)
            with socket.socket() as late:
                late.setblocking(False)
                late.connect_ex(place)
                listening.settimeout(60)
                accepted, who = listening.accept()
                with accepted:
                    assert who == before.getsockname()
                    assert accepted.recv(100) == b"a request"
                    accepted.sendall(b"an answer")
                    assert before.recv(100) == b"an answer"
                listening.setblocking(False)
                with pytest.raises(BlockingIOError):
                    listening.accept()
                listening.close()
                assert refused(late)


def refused(line):
    """Whether a connection that was being made is refused, waiting for that."""
    select.select([], [line], [line], 60)
    return line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
