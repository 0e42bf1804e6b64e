"""Asks a service for some seconds and prints every latency as JSON.

A process of its own: `python load.py URL form|raw PICTURE at-once|a-second NUMBER SECONDS`.

at-once: so many callers, each of whom asks again when it is answered. a-second: so many requests on
average, which come when they come, whether or not earlier ones are answered; each is timed from when it
came, so that a service that falls behind is not asked more gently.
"""

import asyncio
import json
import random
import sys
from pathlib import Path
from time import perf_counter

import aiohttp


class Caller:
    """Sends one picture again and again."""

    def __init__(self, session, url, how, content):
        self._session, self._url, self._how, self._content = session, url, how, content
        self.latencies: list[float] = []

    async def ask(self, came):
        """One request, which came at this time."""
        if self._how == "form":
            body = aiohttp.FormData()
            body.add_field("image", self._content, filename="lesion.jpg", content_type="image/jpeg")
            headers = {}
        else:
            body, headers = self._content, {"Content-Type": "image/jpeg"}
        async with self._session.post(self._url, data=body, headers=headers) as response:
            answer = await response.read()
            if response.status != 200:
                raise SystemExit(f"{self._url} answered {response.status}: {answer[:300]!r}")
        self.latencies.append(perf_counter() - came)

    async def again_and_again(self, until):
        """The next request when the last one is answered."""
        while (now := perf_counter()) < until:
            await self.ask(now)


def arrivals(rate, seconds):
    """When requests come, which know nothing of each other: the same each time."""
    random_times, now = random.Random(0), 0.0
    while (now := now + random_times.expovariate(rate)) < seconds:
        yield now


async def main(url, how, picture, kind, number, seconds):
    """All requests together."""
    content, seconds, began = Path(picture).read_bytes(), float(seconds), perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        caller = Caller(session, url, how, content)
        if kind == "at-once":
            await asyncio.gather(*(caller.again_and_again(began + seconds) for _ in range(int(number))))
        else:
            asked = []
            for arrival in arrivals(float(number), seconds):
                await asyncio.sleep(began + arrival - perf_counter())
                asked.append(asyncio.create_task(caller.ask(began + arrival)))
            await asyncio.gather(*asked)
    print(json.dumps({"seconds": perf_counter() - began, "latencies": caller.latencies}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
