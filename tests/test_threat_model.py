"""Every test that the threat model names is there, and in every file of tests that it names there is one."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_the_threat_model_calls_shown_is():
    page = (ROOT / "docs" / "threat-model.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 25
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in tests if name else any(each.startswith("test_") for each in tests), (path, name)
    assert len(named) == page.count("`tests/")
