"""Any module may be the first that somebody imports: none leans on another having been imported before it."""

import json
import subprocess
import sys
from pathlib import Path

import grimp
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOMS = ("clients", "dermfed", "personalization", "registry", "serving", "training")
ROOT = Path(__file__).parents[1]

# Imports each module of a circle with none of that circle loaded yet; what is outside stays: it does not
# depend on who of them comes first. In one process because torch takes seconds to load.
PROGRAM = """
import importlib, json, sys
groups = json.loads(sys.stdin.read())
failures = {}
for group in groups:
    for module in group:
        for loaded in group if len(group) > 1 else ():
            sys.modules.pop(loaded, None)
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


def circles(names: list[str]) -> list[list[str]]:
    """Groups of modules each of which leads to every other by imports; most are alone.

    Importing a module imports the packages it is in, and is counted as such.
    """
    graph = grimp.build_graph(*ROOMS, cache_dir=None)
    place = {name: index for index, name in enumerate(names)}
    edges = set()
    for name in names:
        parts = name.split(".")
        packages = {".".join(parts[:depth]) for depth in range(1, len(parts))}
        edges |= {(name, other) for other in packages | graph.find_modules_directly_imported_by(name)}
    rows, columns = np.array([(place[one], place[other]) for one, other in edges]).T
    matrix = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    _, group = connected_components(matrix, directed=True, connection="strong")
    return [[names[index] for index in np.flatnonzero(group == one)] for one in np.unique(group)]


def test_every_module_can_be_imported_first():
    names = module_names()
    groups = circles(names)
    assert sorted(name for group in groups for name in group) == sorted(names)
    # A package that hands on what its modules define is imported with each of them: the one circle there is.
    together = {"training.algorithms.exchanges", "training.algorithms.exchanges.base"}
    assert any(together <= set(group) for group in groups)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(groups),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert json.loads(ended.stdout.splitlines()[-1]) == {}
