"""Asks a service for some seconds, so many requests at once, and prints every latency as JSON.

A process of its own: `python load.py URL form|raw PICTURE CONCURRENCY SECONDS`.
"""

import asyncio
import json
import sys
from pathlib import Path
from time import perf_counter

import aiohttp


async def ask(session, url, how, content, until, latencies):
    """One caller: the next request starts when the answer to the last one is there."""
    while (began := perf_counter()) < until:
        if how == "form":
            body = aiohttp.FormData()
            body.add_field("image", content, filename="lesion.jpg", content_type="image/jpeg")
            headers = {}
        else:
            body, headers = content, {"Content-Type": "image/jpeg"}
        async with session.post(url, data=body, headers=headers) as response:
            answer = await response.read()
            if response.status != 200:
                raise SystemExit(f"{url} answered {response.status}: {answer[:300]!r}")
        latencies.append(perf_counter() - began)


async def main(url, how, picture, concurrency, seconds):
    """All callers together."""
    content = Path(picture).read_bytes()
    latencies: list[float] = []
    began = perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        until = began + float(seconds)
        await asyncio.gather(
            *(ask(session, url, how, content, until, latencies) for _ in range(int(concurrency)))
        )
    print(json.dumps({"seconds": perf_counter() - began, "latencies": latencies}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
