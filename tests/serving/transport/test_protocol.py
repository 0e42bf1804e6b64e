import contextlib
import json
import socket

import pytest

from serving.transport.protocol import HttpProtocol

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


def problem(got, status):
    """The problem document of a raw answer, after which the connection was closed."""
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), got[:300]
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    told = json.loads(body)
    assert told["status"] == status
    assert told["request_id"].encode() in head
    return told


def read_here(line):
    """Reads one answer of a connection that stays open."""
    got = b""
    while not got.endswith(b"here"):
        got += line.recv(4096)


@pytest.mark.parametrize("before", [b"", GET + b"\r\n"])
def test_half_a_head_is_answered_408_and_closed(serving, until_closed, before):
    with serving(header_seconds=0.3) as served, served.connect() as line:
        if before:  # on a connection that was kept, too
            line.sendall(before)
            read_here(line)
        line.sendall(GET)
        assert problem(until_closed(line), 408)["type"].endswith(":head-too-slow")
        served.eventually(lambda: served.open() == 0)


def test_bytes_that_come_one_by_one_win_no_time(serving):
    with serving(header_seconds=0.3) as served, served.connect() as line:
        line.settimeout(0.02)
        for _ in range(3000):
            try:
                line.sendall(b"a")
                if line.recv(4096) == b"":
                    break
            except TimeoutError:
                continue  # the service waits for more
            except ConnectionError:
                break
        else:
            pytest.fail("a minute of single bytes, and it still waits")


def test_a_connection_on_which_nothing_is_sent_is_closed(serving, until_closed):
    with serving(header_seconds=0.3) as served, served.connect() as line:
        assert until_closed(line) == b""


def test_a_fault_with_one_connection_leaves_the_others_watched(serving, until_closed, monkeypatch, caplog):
    check, failed = HttpProtocol.check, []

    def fail_once(self, now):
        if not failed:
            failed.append(self)
            raise RuntimeError("a fault")
        check(self, now)

    monkeypatch.setattr(HttpProtocol, "check", fail_once)
    with serving(header_seconds=0.3) as served, served.connect() as one, served.connect() as other:
        assert until_closed(one) == until_closed(other) == b""
    assert len(failed) == 1
    assert "a connection failed while it was looked at" in caplog.text


def test_a_connection_that_is_kept_is_closed_when_nothing_is_asked(serving, until_closed):
    with serving(keep_alive_seconds=1) as served, served.connect() as line:
        line.sendall(GET + b"\r\n")
        assert until_closed(line).endswith(b"here")


def test_a_body_that_stops_ends_the_connection_and_the_application_knows(serving, until_closed):
    with serving(header_seconds=0.2, request_seconds=0.2) as served, served.connect() as line:
        line.sendall(POST % (b"/body", 100) + b"half")
        with contextlib.suppress(ConnectionError):  # closed or reset, as it comes
            assert until_closed(line) == b""
        served.eventually(lambda: served.gone == ["/body"])


def test_whoever_goes_on_sending_after_the_answer_is_not_heard_for_ever(serving):
    with serving(request_seconds=0.3) as served, served.connect() as line:
        line.sendall(POST % (b"/", 100) + b"half")
        read_here(line)
        served.eventually(lambda: served.open() == 0)


def test_whoever_does_not_read_is_not_waited_for(serving):
    with serving(request_seconds=0.3) as served, served.connect() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(GET.replace(b"/ ", b"/large "))
        line.sendall(b"\r\n")
        served.eventually(lambda: served.open() == 1)
        served.eventually(lambda: served.open() == 0)


@pytest.mark.parametrize("size", [140_000, 400_000])
def test_a_head_that_is_too_large_is_answered_431(serving, size):
    with serving() as served:
        told = problem(served.ask(GET + b"X-Long: " + b"a" * size + b"\r\n\r\n"), 431)
    assert told["type"].endswith(":head-too-large")


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET\r\n\r\n", GET + b": x\r\n\r\n"]
)
def test_what_is_no_http_is_answered_in_our_shape(serving, sent):
    with serving() as served:
        assert problem(served.ask(sent), 400)["type"].endswith(":malformed-request")


def test_a_body_that_is_no_body_is_answered_and_the_application_knows(serving):
    sent = b"POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    with serving() as served:
        problem(served.ask(sent), 400)
        served.eventually(lambda: served.gone == ["/body"])


def test_an_answer_that_closes_reaches_whoever_is_still_sending(serving, until_closed):
    size = 8 * 2**20  # more than the kernel takes in at once
    with serving() as served, served.connect() as line:
        line.sendall(POST % (b"/close", size) + bytes(size))
        assert until_closed(line).endswith(b"here")


def test_a_thousand_that_send_nothing_keep_nobody_out(serving, until_closed):
    with serving(connections=20) as served:
        crowd = [served.connect() for _ in range(200)]
        half = [served.connect() for _ in range(200)]
        try:
            for line in half:
                with contextlib.suppress(OSError):  # it made room already
                    line.sendall(GET)
            for _ in range(10):
                with served.connect() as line:
                    line.sendall(GET + b"Connection: close\r\n\r\n")
                    assert until_closed(line).endswith(b"here")
            served.eventually(lambda: served.open() <= 20)
        finally:
            for line in (*crowd, *half):
                line.close()


def test_who_is_being_answered_is_never_closed_for_others(serving, until_closed):
    with serving(connections=4) as served:
        inside = [served.connect() for _ in range(4)]
        for line in inside:
            line.sendall(GET.replace(b"/ ", b"/held ") + b"Connection: close\r\n\r\n")
        served.eventually(lambda: len(served.server.server_state.tasks) == 4)
        with served.connect() as line:
            told = problem(until_closed(line), 503)
        assert told["type"].endswith(":too-many-connections")
        served.let_go.set()
        assert [until_closed(line)[-4:] for line in inside] == [b"held"] * 4
        for line in inside:
            line.close()
