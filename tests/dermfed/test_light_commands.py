"""Help, versions and wrong use load nothing that takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    *("torch", "torchvision", "timm", "matplotlib", "sqlalchemy", "alembic"),
    *("onnxruntime", "bentoml", "nvflare"),
)
# All in one process: once one of them has loaded such a module, it and those after it say so.
CODE = f"""
import contextlib, io, json, sys
from dermfed import commands
told = {{}}
for line in json.loads(sys.argv[1]):
    name, *arguments = line.split()
    sys.argv = ["dermfed-" + name, *arguments]
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            getattr(commands, name)()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    told[line] = [code, [name for name in {HEAVY} if name in sys.modules]]
print(json.dumps(told))
"""
RIGHT = (
    *("train --help", "train --version", "train --recipes", "train encoders --help"),
    *("data --help", "data --version", "data check --help", "node --help", "node check --help"),
    *("registry --help", "registry --version", "registry promote --help", "registry gates set --help"),
    *("serve --help", "serve --version", "diagnose --help", "diagnose --version"),
)
WRONG = (
    *("train --no-such-option", "train", "train not-there.yaml", "data check", "node chek"),
    *("registry keys", "registry promot", "serve --port 0"),
)


@pytest.fixture(scope="module")
def told():
    """Of each command how it ended, and what of `HEAVY` was loaded then."""
    ended = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps([*RIGHT, *WRONG])],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(ended.stdout)


@pytest.mark.parametrize("command", [*RIGHT, *WRONG])
def test_it_loads_nothing_that_takes_seconds(told, command):
    assert told[command] == [2 if command in WRONG else 0, []]
