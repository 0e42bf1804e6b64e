"""schemathesis makes valid and invalid requests from `/openapi.json` and holds every answer against it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serving.conftest import DARK, LIGHT, Places, draw_bundle, release
from tests.serving.hostile.apart import apart

ROOT = Path(__file__).parents[2]

Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def served(places: Places) -> Places:
    """A registry with a release for everybody, for light and for dark skin."""
    with places.open() as registry:
        release(registry, draw_bundle(), draw_bundle(LIGHT), draw_bundle(DARK))
    return places


@pytest.fixture
def schemathesis(served: Places, tmp_path: Path) -> Callable[..., Ended]:
    """Runs all its checks against a service of its own; arguments are its options."""

    def run(*options: str, secret: str | None = None) -> Ended:
        told = ["--header", f"Authorization: Bearer {secret}"] if secret else []
        hooks = "tests.serving.hostile.schemathesis_hooks"
        with apart(served.url, served.store) as service:
            ended = subprocess.run(
                [
                    *(sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"),
                    *("--checks", "all", "--mode", "all", "--continue-on-failure", "--no-color"),
                    *("--generation-database", "none", "--suppress-health-check", "all"),
                    *told,
                    *options,
                ],
                env={
                    **os.environ,
                    "SCHEMATHESIS_HOOKS": hooks,
                    "PYTHONPATH": str(ROOT),
                    "PYTHONWARNINGS": "",
                },
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert service.client.get("/livez").status_code == 200
        return ended

    return run


# Not the phase of examples: JSON holds no bytes, so a picture's example is words that stand for them.
def sound(ended: Ended) -> None:
    """All operations were asked for, and nothing was found."""
    told = ended.stdout + ended.stderr
    assert ended.returncode == 0, told[-6000:]
    assert "Tested: 8" in told, told[-3000:]  # all but /openapi.json itself


def test_the_service_is_what_it_says(schemathesis):
    sound(schemathesis("--phases", "coverage,fuzzing", "--max-examples", "5", "--seed", "1"))


@pytest.mark.long
def test_the_service_is_what_it_says_for_longer(schemathesis):
    sound(schemathesis("--phases", "coverage,fuzzing,stateful", "--max-examples", "100"))


@pytest.mark.long
def test_the_service_is_what_it_says_to_those_with_a_key(schemathesis, served):
    with served.open() as registry:
        _, secret = registry.create_key("schemathesis")
    sound(schemathesis("--phases", "coverage,fuzzing", "--max-examples", "20", secret=secret))
