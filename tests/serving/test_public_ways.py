import re
from pathlib import Path

SERVING = Path(__file__).parents[2] / "serving"


def test_nothing_private_of_bentoml_is_used():
    private = re.compile(r"bentoml\.?_|_bentoml|\.__class__ = ")
    assert [path.name for path in SERVING.rglob("*.py") if private.search(path.read_text())] == []


def test_what_dermfed_serve_starts_knows_nothing_of_bentoml():
    users = {path.name for path in SERVING.rglob("*.py") if re.search(r"\bimport bentoml", path.read_text())}
    assert users == {"service.py"}
