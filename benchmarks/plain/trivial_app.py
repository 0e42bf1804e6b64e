"""An application that answers at once, behind one of three servers: `python trivial_app.py KIND PORT`.

h11: uvicorn with its protocol of h11, as BentoML's workers have it. httptools: with that of httptools.
granian: Granian, as `serving.server` starts it.
"""

import sys

import uvicorn

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
    if kind == "granian":
        from granian import Granian
        from granian.constants import HTTPModes, Interfaces, Loops

        Granian(
            "trivial_app:app",
            port=int(port),
            interface=Interfaces.ASGI,
            http=HTTPModes.http1,
            loop=Loops.asyncio,
            websockets=False,
            log_enabled=False,
        ).serve()
    else:
        uvicorn.run(
            app, port=int(port), http=kind, ws="none", loop="asyncio", log_config=None, access_log=False
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
