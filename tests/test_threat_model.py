"""Every test that the threat model names is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_the_threat_model_calls_shown_is():
    page = (ROOT / "docs" / "threat-model.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 25
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name
    assert len(named) == page.count("`tests/")
