import pytest

from tests.clients.node.federated import HOSPITALS, Federated


@pytest.fixture(scope="session")
def net(tmp_path_factory):
    """A server and four hospitals that run, for tests marked `long`."""
    made = Federated(tmp_path_factory.mktemp("federated"))
    for name in ("server", *HOSPITALS):
        made.start(name)
    yield made
    made.stop()
