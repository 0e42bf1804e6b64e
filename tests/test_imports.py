"""Any module may be the first that somebody imports: none leans on another having been imported before it."""

import json
import subprocess
import sys
from pathlib import Path

ROOMS = ("clients", "personalization", "registry", "serving", "training")
ROOT = Path(__file__).parents[1]

# Imports each module with none of ours loaded yet, in one process because torch takes seconds to load.
PROGRAM = """
import importlib, json, sys
modules, rooms = json.loads(sys.stdin.read())
failures = {}
for module in modules:
    for loaded in [name for name in sys.modules if name.split(".")[0] in rooms]:
        del sys.modules[loaded]
    try:
        importlib.import_module(module)
    except ImportError as error:
        failures[module] = str(error)
print(json.dumps(failures))
"""


def module_names() -> list[str]:
    """Every module of our packages."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]


def test_every_module_can_be_imported_first():
    names = module_names()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([names, ROOMS]),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "training.federation" in names
    assert json.loads(ended.stdout.splitlines()[-1]) == {}
