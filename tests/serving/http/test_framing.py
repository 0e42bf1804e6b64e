import json
import logging

import pytest

CHUNKED = b"Transfer-Encoding: chunked\r\n"
SIZED = b"Content-Length: 5\r\n"
BODY = b"0\r\n\r\n"


def asked(*headers, version=b"1.1"):
    head = b"POST /v1/diagnoses HTTP/%s\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n" % version
    return head + b"".join(headers) + b"\r\n" + BODY


@pytest.mark.parametrize(
    "sent",
    [
        asked(SIZED, CHUNKED),
        asked(CHUNKED, SIZED),
        asked(SIZED, b"Content-Length: 6\r\n"),
        asked(CHUNKED, version=b"1.0"),
    ],
)
def test_a_request_that_ends_in_two_ways_is_refused_and_nothing_behind_it_is_read(service, sent):
    smuggled = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    got = service.raw(sent + smuggled)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["type"] == "urn:dermfed:problem:malformed-request"
    assert b"alive" not in service.raw(sent + smuggled, all_of_it=True)


@pytest.mark.parametrize("header", [SIZED, CHUNKED])
def test_one_way_is_enough(service, header):
    head, _, body = service.raw(asked(header)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" not in head
    assert json.loads(body)["type"] == "urn:dermfed:problem:not-an-image"


def test_websocket_is_refused_and_closed(service):
    headers = b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n"
    got = service.raw(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
    assert got.startswith(b"HTTP/1.1 404 ")
    assert b"connection: close" in got


def test_a_method_is_cut_in_the_log(service, caplog):
    with caplog.at_level(logging.INFO, "dermfed.serve"):
        got = service.raw(b"G" * 9000 + b" /livez HTTP/1.1\r\nHost: " + b"h" * 5000 + b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 405 ")
        service.eventually(lambda: any(" 405 " in line for line in caplog.messages))
    assert all(len(line) < 200 for line in caplog.messages if " 405 " in line)
