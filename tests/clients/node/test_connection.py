"""A node behind a proxy reaches its coordinator as gRPC does, and the check says how."""

import base64
import re
import socket
import threading

import pytest

from clients.node.check import PROXIES, USUAL_PORT, proxy_for, reach


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"http_proxy": "http://a:1"}, ("a", 1)),
        ({"http_proxy": "http://a:1", "https_proxy": "http://b"}, ("b", 80)),
        ({"https_proxy": "http://b:2", "grpc_proxy": "http://c:3"}, ("c", 3)),
        ({"grpc_proxy": "http://c:3", "no_proxy": "other.test"}, ("c", 3)),
        ({"grpc_proxy": "http://c:3", "no_proxy": "other.test, example.test"}, None),
        ({"grpc_proxy": "http://c:3", "no_proxy": "example.test", "no_grpc_proxy": "x"}, ("c", 3)),
        ({"HTTPS_PROXY": "http://b:2"}, None),  # gRPC reads small letters alone
    ],
)
def test_the_proxy_is_the_one_that_grpc_takes(environment, proxy):
    found = proxy_for("fed.example.test", environment)
    assert (None if found is None else (found.hostname, found.port or USUAL_PORT)) == proxy


def test_what_grpc_would_pass_over_in_silence_is_refused():
    for address in ("https://c:3", "c:3", "socks5://c:3"):
        with pytest.raises(ValueError, match="grpc_proxy is no http://host:port"):
            proxy_for("fed.example.test", {"grpc_proxy": address})


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 200 Connection established\r\n\r\n", None),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "403"),
        (b"SSH-2.0-nothing\r\n", "does not speak HTTP"),
    ],
)
def test_a_proxy_is_asked_to_connect_and_what_it_says_is_told(monkeypatch, said, error):
    for name in (*PROXIES, "no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    asked = []

    def answer_one(server):
        connection, _ = server.accept()
        with connection:
            asked.append(connection.recv(4096))
            connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_one, args=(server,))
        thread.start()
        monkeypatch.setenv("grpc_proxy", f"http://north:a%40b@127.0.0.1:{server.getsockname()[1]}")
        if error is None:
            assert re.fullmatch(r" through the proxy 127\.0\.0\.1:\d+", reach("fed.example.test", 8002, 10))
        else:
            with pytest.raises(OSError, match=error) as raised:
                reach("fed.example.test", 8002, 10)
            assert "north" not in str(raised.value)
        thread.join()
    assert asked[0].startswith(b"CONNECT fed.example.test:8002 ")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"north:a@b") in asked[0]
