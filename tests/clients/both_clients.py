"""Both clients under one test: `connect("DermFed")` and `connect("AsyncDermFed")` are called alike."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal

from clients.api import AsyncDermFed, DermFed

NAMES = ("DermFed", "AsyncDermFed")


class Waited:
    """An `AsyncDermFed` that is called like a `DermFed`: each call is a task of the portal's event loop."""

    def __init__(self, portal: BlockingPortal, *arguments: Any, **settings: Any) -> None:
        if sleep := settings.pop("sleep", None):
            settings["sleep"] = self._sleeping(sleep)
        self._portal = portal
        self.inner = AsyncDermFed(*arguments, **settings)

    @staticmethod
    def _sleeping(sleep: Callable[[float], None]) -> Any:
        async def wait(seconds: float) -> None:
            sleep(seconds)

        return wait

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *arguments, **named: self._portal.call(partial(found, *arguments, **named))

    def __enter__(self) -> "Waited":
        assert self._portal.call(self.inner.__aenter__) is self.inner
        return self

    def __exit__(self, *ended: Any) -> None:
        self._portal.call(self.inner.__aexit__, *ended)

    def __repr__(self) -> str:
        return repr(self.inner)


def connector(name: str, portal: BlockingPortal) -> Callable[..., AbstractContextManager[Any]]:
    """What makes a client of this name; both take the same arguments and give the same."""
    return DermFed if name == "DermFed" else partial(Waited, portal)


def told_apart(name: str) -> str:
    """The name of a test's parameter."""
    return {"DermFed": "sync", "AsyncDermFed": "async"}[name]
