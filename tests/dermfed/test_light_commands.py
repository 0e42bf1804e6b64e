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
COMMANDS = {
    "train --help": 0,
    "train --version": 0,
    "train --recipes": 0,
    "train --no-such-option": 2,
    "train": 2,
    "train not-there.yaml": 2,
    "train encoders --help": 0,
    "data --help": 0,
    "data --version": 0,
    "data check --help": 0,
    "data check": 2,
    "node --help": 0,
    "node check --help": 0,
    "node chek": 2,
    "registry --help": 0,
    "registry --version": 0,
    "registry promote --help": 0,
    "registry gates set --help": 0,
    "registry keys": 2,
    "registry promot": 2,
    "serve --help": 0,
    "serve --version": 0,
    "serve --port 0": 2,
    "diagnose --help": 0,
    "diagnose --version": 0,
}


@pytest.fixture(scope="module")
def told():
    """Of each command how it ended, and what of `HEAVY` was loaded then."""
    ended = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(list(COMMANDS))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(ended.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_it_loads_nothing_that_takes_seconds(told, command):
    assert told[command] == [COMMANDS[command], []]
