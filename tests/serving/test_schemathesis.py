"""schemathesis makes valid and invalid requests from `/openapi.json` and checks every answer against it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving.conftest import DARK, LIGHT, draw_bundle, release
from tests.serving.hostile.apart import apart

ROOT = Path(__file__).parents[2]
OPTIONS = (
    *("--checks", "all", "--mode", "all", "--continue-on-failure", "--no-color"),
    *("--generation-database", "none", "--suppress-health-check", "all"),
)


@pytest.fixture
def schemathesis(registry, places, tmp_path):
    """Runs all its checks against a service of its own, and finds nothing; arguments are its options."""
    release(registry, draw_bundle(), draw_bundle(LIGHT), draw_bundle(DARK))

    def run(*options):
        environment = {
            **os.environ,
            "SCHEMATHESIS_HOOKS": "tests.serving.hostile.schemathesis_hooks",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "",
        }
        with apart(places.url, places.store) as service:
            command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"]
            ended = subprocess.run(
                [*command, *OPTIONS, *options],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert service.client.get("/livez").status_code == 200
        printed = ended.stdout + ended.stderr
        assert ended.returncode == 0, printed[-6000:]
        assert "Tested: 7" in printed, printed[-3000:]  # all but /openapi.json itself, and outcomes

    return run


# Not the phase of examples: JSON has no bytes, so that a picture's example is words.
def test_the_service_is_what_it_says(schemathesis):
    schemathesis("--phases", "coverage,fuzzing", "--max-examples", "5", "--seed", "1")


@pytest.mark.long
def test_the_service_is_what_it_says_for_longer(schemathesis):
    schemathesis("--phases", "coverage,fuzzing,stateful", "--max-examples", "100")


@pytest.mark.long
def test_the_service_is_what_it_says_to_callers_with_a_key(schemathesis, registry):
    _, secret = registry.create_key("schemathesis")
    key = ("--header", f"Authorization: Bearer {secret}")
    schemathesis("--phases", "coverage,fuzzing", "--max-examples", "20", *key)
