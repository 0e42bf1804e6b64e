from collections.abc import Callable, Iterable

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def bearer() -> Callable[[str | None], dict[str, str]]:
    """The headers of a caller with this key; none without one."""
    return lambda secret: {"Authorization": f"Bearer {secret}"} if secret else {}


@pytest.fixture
def released(registry, promote, bundle):
    """A registry with a release and no keys."""
    return promote(registry, bundle())


@pytest.fixture
def keyed(registry, released) -> str:
    """A registry with a release and a key; gives its secret."""
    return registry.create_key("app")[1]


@pytest.fixture
def statuses(bearer) -> Callable[..., list[int]]:
    """The statuses of requests with a key, one for each path."""

    def ask(service, secret: str | None, paths: Iterable[str]) -> list[int]:
        return [service.client.get(path, headers=bearer(secret)).status_code for path in paths]

    return ask
