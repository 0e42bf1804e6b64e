import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from registry.records import SiteStatus
from registry.registry import Registry
from serving.metrics import Metrics
from serving.releases.current_release import CurrentRelease
from serving.settings import ServeSettings

MODEL = "skin-lesion"


def version(answer: httpx.Response) -> int:
    """The number of the version that answered, or the status of a refusal."""
    return answer.json()["model"]["version"] if answer.status_code == 200 else answer.status_code


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


class Source:
    """A registry that can be made to fail, to lie, and to take its time.

    Attributes:
        error: raised whenever it is asked what is current.
        broken: by a version's number, the error that its bundle raises, or another bundle in its place.
        slow: numbers of versions whose bundles wait for `go`; `loading` is set once one does.
        hides: whether it is an older one, which knows no withdrawals.
        loaded: numbers of the versions whose bundles were read.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.error: Exception | None = None
        self.broken: dict[int, Any] = {}
        self.slow: set[int] = set()
        self.go, self.loading = threading.Event(), threading.Event()
        self.hides = False
        self.loaded: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.registry, name)

    def standing(self, alias: str) -> SiteStatus:
        if self.error:
            raise self.error
        return SiteStatus(self.registry.current(alias)) if self.hides else self.registry.standing(alias)

    def bundle(self, version: Any) -> Any:
        if version.number in self.slow:
            self.loading.set()
            assert self.go.wait(120)
        if isinstance(broken := self.broken.get(version.number), Exception):
            raise broken
        self.loaded.append(version.number)
        return broken or self.registry.bundle(version)


@pytest.fixture
def source(registry: Registry, promote: Any, bundle: Any, light: Any) -> Source:
    """A source whose release 1 holds versions 1 (global) and 2 (light)."""
    promote(registry, bundle(), bundle(light))
    return Source(registry)


@pytest.fixture
def replaced(source: Source, promote: Any, bundle: Any) -> Source:
    """A source whose release 2 holds versions 3 (global) and 2 (light)."""
    promote(source.registry, bundle(seed=1))
    return source


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Callable[..., CurrentRelease]:
    """What follows a source, polled by hand alone."""
    monkeypatch.setattr(CurrentRelease, "_poll_until_closed", lambda self: None)
    return lambda source, metrics=None: CurrentRelease(source, ServeSettings(), metrics or Metrics())
