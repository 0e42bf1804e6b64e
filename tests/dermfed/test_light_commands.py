"""Help, versions and wrong use load nothing that takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    *("torch", "torchvision", "timm", "matplotlib", "sqlalchemy", "alembic"),
    *("onnxruntime", "bentoml", "nvflare"),
)
CODE = f"""
import sys
from dermfed import commands
sys.argv = ["dermfed-" + sys.argv[1], *sys.argv[2:]]
try:
    getattr(commands, sys.argv[0].removeprefix("dermfed-"))()
except SystemExit as ended:
    code = ended.code
else:
    code = 0
print("ended", code or 0, [name for name in {HEAVY} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("train --help", 0),
        ("train --version", 0),
        ("train --recipes", 0),
        ("train --no-such-option", 2),
        ("train", 2),
        ("train not-there.yaml", 2),
        ("train encoders --help", 0),
        ("data --help", 0),
        ("data --version", 0),
        ("data check --help", 0),
        ("data check", 2),
        ("node --help", 0),
        ("node check --help", 0),
        ("node chek", 2),
        ("registry --help", 0),
        ("registry --version", 0),
        ("registry promote --help", 0),
        ("registry gates set --help", 0),
        ("registry keys", 2),
        ("registry promot", 2),
        ("serve --help", 0),
        ("serve --version", 0),
        ("serve --port 0", 2),
        ("diagnose --help", 0),
        ("diagnose --version", 0),
    ],
)
def test_it_loads_nothing_that_takes_seconds(command, code):
    ended = subprocess.run(
        [sys.executable, "-c", CODE, *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines()[-1] == f"ended {code} []", ended.stderr
