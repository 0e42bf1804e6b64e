"""How a node reaches its coordinator: directly, or through the HTTP proxy that gRPC is told of.

gRPC takes the first of `grpc_proxy`, `https_proxy` and `http_proxy` that is set, and none for hosts that end
with a part of `no_grpc_proxy` or else `no_proxy`, all in small letters; it asks the proxy to CONNECT to the
coordinator and speaks TLS to it through that. The check does the same with the standard library.
"""

import base64
import http.client
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
NO_PROXY = ("no_grpc_proxy", "no_proxy")
USUAL_PORT = 80


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy.

    Attributes:
        host: its name or address.
        port: where it listens.
        headers: what it is told besides: who asks, where the address says so.
    """

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def proxy_for(host: str, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy through which gRPC reaches a host; None where it asks none.

    Raises:
        ValueError: the variable is no `http://host:port`, which gRPC would pass over in silence.
    """
    name = next((name for name in PROXIES if environment.get(name)), None)
    if name is None:
        return None
    without = next((environment[name] for name in NO_PROXY if environment.get(name)), "")
    if any(host.endswith(end.strip()) for end in without.split(",") if end.strip()):
        return None
    parts = urlsplit(environment[name])
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{name} is no http://host:port; gRPC knows no other proxies")
    headers = {}
    if parts.username is not None:
        who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(who.encode()).decode()}"
    return Proxy(parts.hostname, parts.port or USUAL_PORT, headers)


def reach(host: str, port: int, seconds: float) -> str:
    """Opens a connection as gRPC would and closes it; says through which proxy, or nothing.

    Raises:
        OSError: the coordinator, or the proxy, cannot be reached, or the proxy refuses.
        ValueError: of `proxy_for`.
    """
    proxy = proxy_for(host)
    if proxy is None:
        socket.create_connection((host, port), timeout=seconds).close()
        return ""
    tunnel = http.client.HTTPConnection(proxy.host, proxy.port, timeout=seconds)
    tunnel.set_tunnel(host, port, dict(proxy.headers))
    try:
        tunnel.connect()
    except http.client.HTTPException as error:
        raise OSError(f"the proxy {proxy.host}:{proxy.port} does not speak HTTP") from error
    finally:
        tunnel.close()
    return f" through the proxy {proxy.host}:{proxy.port}"
