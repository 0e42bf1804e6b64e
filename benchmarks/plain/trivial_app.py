"""An application that answers at once, behind one of three servers: `python trivial_app.py KIND PORT`.

h11: uvicorn with its protocol of h11, as BentoML's workers have it. httptools: with that of httptools. ours:
`serving.transport`.
"""

import sys
from pathlib import Path

import uvicorn

sys.path.insert(0, str(Path(__file__).parents[2]))

ANSWER = b"alive\n"
HEADERS = [(b"content-type", b"text/plain"), (b"content-length", b"6")]


async def app(scope, receive, send):
    """Says that it lives, without a framework."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def main(kind, port):
    """Serve until SIGTERM."""
    from serving.transport.config import Bounds
    from serving.transport.listening import listen
    from serving.transport.server import Server

    listening = listen("127.0.0.1", int(port))
    if kind == "ours":
        server = Server(app, Bounds(10.0, 60.0), 512)
    else:
        config = uvicorn.Config(
            app, http=kind, ws="none", loop="asyncio", log_config=None, access_log=False, server_header=False
        )
        server = uvicorn.Server(config)
    server.run(listening)


if __name__ == "__main__":
    main(*sys.argv[1:])
